"""Record logs in Redis: a stream of batches a partition, a small stream of index rows, the log start, notes.

The id of an entry is the batch's last offset plus one (Redis has no id 0-0): Redis itself refuses what is out
of order, a range query finds the batch of an offset, and the last id is the log end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.segments import Segment
from sharebroker_server.record_log.port import NO_NOTES, Bounds
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.link.errors import RedisError
from sharebroker_server.redis_link.link.lua import lua
from sharebroker_server.redis_link.link.port import Link, Part
from sharebroker_server.stream_log.port import LogNotWritten, LogOutOfOrder, LogUnavailable
from sharebroker_server.stream_log.redis import write_failure

HERE: Final = Path(__file__).parent
FENCE: Final = "../stream_log/fence"
POSITION: Final = "../stream_log/position"
APPEND: Final = lua(HERE, POSITION, FENCE, "append")
TRIM: Final = lua(HERE, FENCE, "trim", flags="allow-oom")  # trimming is the way out of a full memory
BOUNDS: Final = lua(HERE, POSITION, "bounds", flags="no-writes")

_FIRST_COUNT: Final = 4
_LARGEST_COUNT: Final = 256
_KEYS_AT_A_TIME: Final = 1000


class RedisRecordStore:
    """Batches in Redis; no method waits longer than the link lets a silent server wait.

    Appends, and what they have to know before, go by `writes`, by default the same link.
    """

    def __init__(self, link: Link, keys: Keys | None = None, *, writes: Link | None = None) -> None:
        self._link = link
        self._writes = writes or link
        self._keys = keys or Keys()
        self._append = self._writes.script(APPEND, replicated=True)
        self._trim = link.script(TRIM)
        self._bounds = self._writes.script(BOUNDS)
        self._seen: dict[str, int] = {}

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        notes: Mapping[str, bytes] = NO_NOTES,
    ) -> None:
        """As the port says; where another server answers than before, it looks first where the log ends."""
        while (
            self._seen.setdefault(partition, self._writes.server_incarnation)
            != self._writes.server_incarnation
        ):
            await self._check_end(partition, batches[0].base_offset)
        args: list[Part] = [epoch, batches[0].base_offset, len(batches), len(segments)]
        for batch in batches:
            args += (f"{batch.last_offset + 1}-0", batch.data)
        for row in segments:
            args += (f"{row.end_offset}-0", row.base_offset, row.size, row.max_timestamp)
        for note in notes.items():
            args += note
        keys = (
            self._keys.lease(partition),
            self._keys.log(partition),
            self._index(partition),
            self._notes(partition),
        )
        await _written(partition, self._append.send(keys, args))

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """As the port says: a few entries at first, then as many as their size says will fit."""
        batches: list[StoredBatch] = []
        start, left, count = f"{offset + 1}-0", max_bytes, _FIRST_COUNT
        while True:
            entries = await _answered(
                partition, self._link.send("XRANGE", self._keys.log(partition), start, "+", "COUNT", count)
            )
            for _, (_, data) in entries:
                if batches and len(data) > left:
                    return batches
                batches.append(StoredBatch.from_bytes(data))
                left -= len(data)
            if len(entries) < count or left <= 0:
                return batches
            start = f"({batches[-1].last_offset + 1}-0"
            count = min(left * len(batches) // (max_bytes - left) + 1, _LARGEST_COUNT)

    async def bounds(self, partition: str) -> Bounds:
        """As the port says."""
        keys, generation = (
            (self._keys.log(partition), self._keys.meta(partition)),
            self._writes.server_incarnation,
        )
        log_start, log_end = await _answered(partition, self._bounds.send(keys, ()))
        self._seen[partition] = generation
        return Bounds(int(log_start), log_end)

    async def segments(self, partition: str) -> list[Segment]:
        """As the port says."""
        log_start = self._link.send("HGET", self._keys.meta(partition), "log_start")
        rows = self._link.send("XRANGE", self._index(partition), "-", "+")
        start = int(await _answered(partition, log_start) or 0)
        segments = [_segment(row_id, fields) for row_id, fields in await _answered(partition, rows)]
        return [segment for segment in segments if segment.end_offset > start]

    async def notes(self, partition: str) -> dict[str, bytes]:
        """As the port says."""
        pairs = iter(await _answered(partition, self._link.send("HGETALL", self._notes(partition))))
        return {name.decode(): note for name, note in zip(pairs, pairs, strict=True)}

    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, forgotten: Sequence[str] = ()
    ) -> None:
        """As the port says; works when Redis is out of memory too."""
        keys = (
            self._keys.lease(partition),
            self._keys.log(partition),
            self._index(partition),
            self._keys.meta(partition),
            self._notes(partition),
        )
        await _written(partition, self._trim.send(keys, (epoch, log_start_offset, *forgotten)))

    async def partitions(self) -> set[str]:
        """As the port says; a walk over all keys of every server, some at a time."""
        found: set[str] = set()
        for node in self._link.nodes:
            cursor = b""
            while cursor != b"0":
                walk = (cursor or b"0", "MATCH", self._keys.all_of("partition"), "COUNT", _KEYS_AT_A_TIME)
                cursor, keys = await _answered("partitions", node.send("SCAN", *walk))
                found.update(self._keys.resource_of(key.decode()) for key in keys)
        return found

    async def delete(self, partition: str) -> None:
        """As the port says."""
        keys = (
            self._keys.log(partition),
            self._index(partition),
            self._keys.meta(partition),
            self._notes(partition),
        )
        self._seen.pop(partition, None)
        await _written(partition, self._link.send("UNLINK", *keys))

    async def _check_end(self, partition: str, base_offset: int) -> None:
        """A server that lost its newest batches would take later ones in, and nobody would notice the gap."""
        try:
            end = (await self.bounds(partition)).log_end_offset
        except LogUnavailable as error:
            raise LogNotWritten(str(error)) from error
        if end != base_offset:
            raise LogOutOfOrder(f"{partition}: the log ends at {end} on another server than before")

    def _index(self, partition: str) -> str:
        return f"{self._keys.log(partition)}:index"

    def _notes(self, partition: str) -> str:
        return f"{self._keys.log(partition)}:notes"


def _segment(row_id: bytes, fields: Sequence[bytes]) -> Segment:
    _, base, _, size, _, newest = fields
    return Segment(int(base), int(row_id.removesuffix(b"-0")), int(size), int(newest))


async def _written(partition: str, reply: asyncio.Future[Any]) -> None:
    try:
        await reply
    except RedisError as error:
        raise write_failure(partition, error) from error


async def _answered(partition: str, reply: asyncio.Future[Any]) -> Any:
    try:
        return await reply
    except RedisError as error:
        raise LogUnavailable(f"{partition}: {error}") from error
