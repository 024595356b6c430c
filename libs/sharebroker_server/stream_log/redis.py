"""The fenced log in Redis streams: entry id "<position>-0", payload in field "p".

An append is one script call for any number of payloads; the calls of many shards share the link's pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from typing_extensions import override

from sharebroker_server.leases.names import kind_of
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import Link, RedisError, RedisOutcomeUnknown, RedisRefused, lua
from sharebroker_server.stream_log.port import (
    Entry,
    LogError,
    LogFenced,
    LogFull,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogRefused,
    LogUnavailable,
    StreamLog,
)
from sharebroker_server.telemetry.metrics import AppendMetrics, AppendMetricsByLog

HERE: Final = Path(__file__).parent
FENCE: Final = "../leases/fence"
POSITION: Final = "../stream_log/position"
# Allowed with full memory, because both free memory: acknowledgements drop records, deletions drop logs.
APPEND: Final = lua(HERE, POSITION, FENCE, "append", flags="allow-oom")
TRIM: Final = lua(HERE, FENCE, "trim", flags="allow-oom")
LAST_POSITION: Final = lua(HERE, POSITION, "last", flags="no-writes")


class _Shard(NamedTuple):
    """The keys of a shard's lease and log, and the metrics of its kind."""

    keys: tuple[str, str]
    appended: AppendMetrics


class RedisStreamLog(StreamLog):
    """Logs in Redis; no method waits longer than the time-out of the link.

    Appends use the link `writes`, by default the same one. `appends` measures appends by the kind of shard.
    """

    def __init__(
        self,
        link: Link,
        keys: Keys | None = None,
        *,
        writes: Link | None = None,
        appends: AppendMetricsByLog | None = None,
    ) -> None:
        self._link = link
        self._keys = keys or Keys()
        self._append = (writes or link).script(APPEND, replicated=True)
        self._trim = link.script(TRIM)
        self._last_position = link.script(LAST_POSITION)
        self._appends = appends or AppendMetricsByLog()
        self._shards: dict[str, _Shard] = {}

    @override
    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        keys, appended = self._shard(shard)
        with appended.timed(len(payloads), sum(map(len, payloads))):
            await await_write(shard, self._append.send(keys, (epoch, first_position, *payloads)))

    @override
    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        rows = self._link.send("XRANGE", self._keys.log(shard), f"{after + 1}-0", "+", "COUNT", limit)
        return [Entry(int(entry_id[:-2]), fields[1]) for entry_id, fields in await await_read(shard, rows)]

    @override
    async def last_position(self, shard: str) -> int:
        return int(await await_read(shard, self._last_position.send((self._keys.log(shard),), ())))

    @override
    async def trim(self, shard: str, epoch: int, before: int) -> None:
        await await_write(shard, self._trim.send(self._shard(shard).keys, (epoch, before)))

    @override
    async def delete(self, shard: str) -> None:
        self._shards.pop(shard, None)
        await await_write(shard, self._link.send("UNLINK", self._keys.log(shard)))

    def _shard(self, shard: str) -> _Shard:
        known = self._shards.get(shard)
        if known is None:
            keys = (self._keys.lease(shard), self._keys.log(shard))
            known = self._shards[shard] = _Shard(keys, self._appends.of(kind_of(shard)))
        return known


async def await_write(name: str, reply: asyncio.Future[Any]) -> Any:
    """Returns the reply to a write to the named log. Raises LogFenced, LogNotWritten, LogOutcomeUnknown."""
    try:
        return await reply
    except RedisError as error:
        raise write_failure(name, error) from error


async def await_read(name: str, reply: asyncio.Future[Any]) -> Any:
    """Returns the reply to a read of the named log. Raises LogUnavailable."""
    try:
        return await reply
    except RedisError as error:
        raise LogUnavailable(f"{name}: {error}") from error


def write_failure(name: str, error: RedisError) -> LogError:
    """Returns the meaning of a failed write: fenced, not written, or outcome unknown."""
    if isinstance(error, RedisOutcomeUnknown):
        return LogOutcomeUnknown(f"{name}: {error}")
    if not isinstance(error, RedisRefused):
        return LogNotWritten(f"{name}: {error}")
    if error.code == "FENCED":
        return LogFenced(f"{name}: {error.text}")
    if error.code == "OUTOFORDER":
        return LogOutOfOrder(f"{name}: {error.text}")
    if error.code == "OOM":
        return LogFull(f"{name}: {error}")
    return LogRefused(f"{name}: {error}")
