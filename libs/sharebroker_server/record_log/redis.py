"""The record store in Redis.

A partition has a stream of batches, a small stream of segments, a hash with the log start, and a hash of
producer snapshots. The id of a stream entry is the batch's last offset plus one (Redis has no id 0-0). Redis
itself therefore rejects entries out of order, a range query finds the batch of an offset, and the last id is
the log end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import Segment
from sharebroker_server.record_log.port import NO_SNAPSHOTS, Bounds, RecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import Link, Part, RedisError, lua
from sharebroker_server.stream_log.port import LogNotWritten, LogOutOfOrder, LogUnavailable
from sharebroker_server.stream_log.redis import FENCE, write_failure

HERE: Final = Path(__file__).parent

POSITION: Final = "../stream_log/position"
APPEND: Final = lua(HERE, POSITION, FENCE, "append")
TRIM: Final = lua(
    HERE, FENCE, "trim", flags="allow-oom"
)  # trimming must work when Redis is out of memory: it frees memory
BOUNDS: Final = lua(HERE, POSITION, "bounds", flags="no-writes")

_FIRST_COUNT: Final = 4
_LARGEST_COUNT: Final = 256
_SCAN_COUNT: Final = 1000


class RedisRecordStore(RecordStore):
    """Stores batches in Redis; each method waits at most as long as the link waits for a silent server.

    Appends, and the reads that they depend on, use the link `writes`, by default the same link.
    """

    def __init__(self, link: Link, keys: Keys | None = None, *, writes: Link | None = None) -> None:
        self._link = link
        self._writes = writes or link
        self._keys = keys or Keys()
        self._append = self._writes.script(APPEND, replicated=True)
        self._trim = link.script(TRIM)
        self._bounds = self._writes.script(BOUNDS)
        self._checked_incarnation: dict[str, int] = {}

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
    ) -> None:
        """Appends; after a change of the server incarnation, checks the log end first."""
        while (
            self._checked_incarnation.setdefault(partition, self._writes.server_incarnation)
            != self._writes.server_incarnation
        ):
            await self._check_end(partition, batches[0].base_offset)
        args: list[Part] = [epoch, batches[0].base_offset, len(batches), len(segments)]
        for batch in batches:
            args += (f"{batch.last_offset + 1}-0", batch.data)
        for row in segments:
            args += (f"{row.end_offset}-0", row.base_offset, row.size, row.max_timestamp)
        for snapshot in snapshots.items():
            args += snapshot
        keys = (
            self._keys.lease(partition),
            self._keys.log(partition),
            self._index(partition),
            self._snapshots(partition),
        )
        await _await_write(partition, self._append.send(keys, args))

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """Reads a few entries first, then as many as should fit according to their size."""
        batches: list[StoredBatch] = []
        start, remaining, count = f"{offset + 1}-0", max_bytes, _FIRST_COUNT
        while True:
            entries = await _await_read(
                partition, self._link.send("XRANGE", self._keys.log(partition), start, "+", "COUNT", count)
            )
            for _, (_, data) in entries:
                if batches and len(data) > remaining:
                    return batches
                batches.append(StoredBatch.from_bytes(data))
                remaining -= len(data)
            if len(entries) < count or remaining <= 0:
                return batches
            start = f"({batches[-1].last_offset + 1}-0"
            count = min(remaining * len(batches) // (max_bytes - remaining) + 1, _LARGEST_COUNT)

    @override
    async def bounds(self, partition: str) -> Bounds:
        keys, incarnation = (
            (self._keys.log(partition), self._keys.meta(partition)),
            self._writes.server_incarnation,
        )
        log_start, log_end = await _await_read(partition, self._bounds.send(keys, ()))
        self._checked_incarnation[partition] = incarnation
        return Bounds(int(log_start), log_end)

    @override
    async def segments(self, partition: str) -> list[Segment]:
        log_start = self._link.send("HGET", self._keys.meta(partition), "log_start")
        rows = self._link.send("XRANGE", self._index(partition), "-", "+")
        start = int(await _await_read(partition, log_start) or 0)
        segments = [_segment(row_id, fields) for row_id, fields in await _await_read(partition, rows)]
        return [segment for segment in segments if segment.end_offset > start]

    @override
    async def snapshots(self, partition: str) -> dict[str, bytes]:
        pairs = iter(await _await_read(partition, self._link.send("HGETALL", self._snapshots(partition))))
        return {name.decode(): snapshot for name, snapshot in zip(pairs, pairs, strict=True)}

    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, deleted_snapshots: Sequence[str] = ()
    ) -> None:
        """Trims; works when Redis is out of memory."""
        keys = (
            self._keys.lease(partition),
            self._keys.log(partition),
            self._index(partition),
            self._keys.meta(partition),
            self._snapshots(partition),
        )
        await _await_write(partition, self._trim.send(keys, (epoch, log_start_offset, *deleted_snapshots)))

    async def partitions(self) -> set[str]:
        """Scans the keys of every server, one page at a time."""
        found: set[str] = set()
        for node in self._link.nodes:
            cursor = b""
            while cursor != b"0":
                walk = (cursor or b"0", "MATCH", self._keys.all_of("partition"), "COUNT", _SCAN_COUNT)
                cursor, keys = await _await_read("partitions", node.send("SCAN", *walk))
                found.update(self._keys.resource_of(key.decode()) for key in keys)
        return found

    @override
    async def delete(self, partition: str) -> None:
        keys = (
            self._keys.log(partition),
            self._index(partition),
            self._keys.meta(partition),
            self._snapshots(partition),
        )
        self._checked_incarnation.pop(partition, None)
        await _await_write(partition, self._link.send("UNLINK", *keys))

    async def _check_end(self, partition: str, base_offset: int) -> None:
        """Checks that the server has the log up to `base_offset`.

        A server that lost its newest batches would accept later ones, and leave an undetected gap.
        """
        try:
            end = (await self.bounds(partition)).log_end_offset
        except LogUnavailable as error:
            raise LogNotWritten(str(error)) from error
        if end != base_offset:
            raise LogOutOfOrder(
                f"{partition}: the log ends at {end} after a change of the Redis server, not at {base_offset}"
            )

    def _index(self, partition: str) -> str:
        return f"{self._keys.log(partition)}:index"

    def _snapshots(self, partition: str) -> str:
        return f"{self._keys.log(partition)}:notes"


def _segment(row_id: bytes, fields: Sequence[bytes]) -> Segment:
    _, base, _, size, _, newest = fields
    return Segment(int(base), int(row_id.removesuffix(b"-0")), int(size), int(newest))


async def _await_write(partition: str, reply: asyncio.Future[Any]) -> None:
    try:
        await reply
    except RedisError as error:
        raise write_failure(partition, error) from error


async def _await_read(partition: str, reply: asyncio.Future[Any]) -> Any:
    try:
        return await reply
    except RedisError as error:
        raise LogUnavailable(f"{partition}: {error}") from error
