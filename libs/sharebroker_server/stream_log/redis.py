"""The fenced log in Redis streams: entry id "<position>-0", payload in field "p".

An append is one script call for any number of payloads; the calls of many shards share the link's pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import Link, RedisError, RedisOutcomeUnknown, RedisRefused, lua
from sharebroker_server.stream_log.port import (
    Entry,
    LogError,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogRefused,
    LogUnavailable,
    StreamLog,
)

HERE: Final = Path(__file__).parent
FENCE: Final = "../leases/fence"
# Allowed with full memory, because both free memory: acknowledgements drop records, deletions drop logs.
APPEND: Final = lua(HERE, "position", FENCE, "append", flags="allow-oom")
TRIM: Final = lua(HERE, FENCE, "trim", flags="allow-oom")
LAST_POSITION: Final = lua(HERE, "position", "last", flags="no-writes")


class RedisStreamLog(StreamLog):
    """Logs in Redis; no method waits longer than the time-out of the link.

    Appends use the link `writes`, by default the same one.
    """

    def __init__(self, link: Link, keys: Keys | None = None, *, writes: Link | None = None) -> None:
        self._link = link
        self._keys = keys or Keys()
        self._append = (writes or link).script(APPEND, replicated=True)
        self._trim = link.script(TRIM)
        self._last_position = link.script(LAST_POSITION)

    @override
    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        try:
            await self._append.send(self._lease_and_log(shard), (epoch, first_position, *payloads))
        except RedisError as error:
            raise write_failure(shard, error) from error

    @override
    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        try:
            rows = await self._link.send(
                "XRANGE", self._keys.log(shard), f"{after + 1}-0", "+", "COUNT", limit
            )
        except RedisError as error:
            raise LogUnavailable(f"{shard}: {error}") from error
        return [Entry(int(entry_id[:-2]), fields[1]) for entry_id, fields in rows]

    @override
    async def last_position(self, shard: str) -> int:
        try:
            return int(await self._last_position.send((self._keys.log(shard),), ()))
        except RedisError as error:
            raise LogUnavailable(f"{shard}: {error}") from error

    @override
    async def trim(self, shard: str, epoch: int, before: int) -> None:
        try:
            await self._trim.send(self._lease_and_log(shard), (epoch, before))
        except RedisError as error:
            raise write_failure(shard, error) from error

    @override
    async def delete(self, shard: str) -> None:
        try:
            await self._link.send("UNLINK", self._keys.log(shard))
        except RedisError as error:
            raise write_failure(shard, error) from error

    def _lease_and_log(self, shard: str) -> tuple[str, str]:
        return self._keys.lease(shard), self._keys.log(shard)


def write_failure(shard: str, error: RedisError) -> LogError:
    """Returns the meaning of a failed write: fenced, not written, or outcome unknown."""
    if isinstance(error, RedisOutcomeUnknown):
        return LogOutcomeUnknown(f"{shard}: {error}")
    if isinstance(error, RedisRefused) and error.code == "FENCED":
        return LogFenced(f"{shard}: {error.text}")
    if isinstance(error, RedisRefused) and error.code == "OUTOFORDER":
        return LogOutOfOrder(f"{shard}: {error.text}")
    if isinstance(error, RedisRefused):
        return LogRefused(f"{shard}: {error}")
    return LogNotWritten(f"{shard}: {error}")
