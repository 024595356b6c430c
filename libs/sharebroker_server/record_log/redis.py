"""The record store in Redis.

A partition has a stream of batches, a small stream of segments, a hash with the log start, and a hash of
producer snapshots. The id of a stream entry is the batch's last offset plus one (Redis has no id 0-0). Redis
itself therefore rejects entries out of order, a range query finds the batch of an offset, and the last id is
the log end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typing_extensions import override

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import Segment
from sharebroker_server.record_log.port import NO_SNAPSHOTS, Bounds, RecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import Link, Part, RedisError, lua
from sharebroker_server.stream_log.port import LogNotWritten, LogOutOfOrder, LogUnavailable
from sharebroker_server.stream_log.redis import FENCE, POSITION, await_read, await_write, write_failure
from sharebroker_server.telemetry.metrics import AppendMetricsByLog

HERE: Final = Path(__file__).parent
APPEND: Final = lua(HERE, POSITION, FENCE, "append")
APPEND_BEYOND_LIMIT: Final = lua(HERE, POSITION, FENCE, "append", flags="allow-oom")
# Trimming must work when Redis is out of memory: it frees memory.
TRIM: Final = lua(HERE, FENCE, "trim", flags="allow-oom")
BOUNDS: Final = lua(HERE, POSITION, "bounds", flags="no-writes")
VIEW: Final = lua(HERE, POSITION, "view", flags="no-writes")
BEGIN_IMPORT: Final = lua(HERE, POSITION, FENCE, "begin_import", flags="allow-oom")
EXTEND: Final = lua(HERE, POSITION, FENCE, "extend", flags="allow-oom")

_ANY_OFFSET: Final = (1 << 53) - 1
"""The base offset of an append without batches: no log ends above it."""

_FIRST_COUNT: Final = 4
_LARGEST_COUNT: Final = 256
_SCAN_COUNT: Final = 1000
_READS_AT_ONCE: Final = 256


@dataclass(slots=True)
class _Partition:
    """The keys of a partition, and the server incarnation against which its log end was checked."""

    lease: str
    log: str
    index: str
    meta: str
    snapshots: str
    checked_incarnation: int


class RedisRecordStore(RecordStore):
    """Stores batches in Redis; each method waits at most as long as the link waits for a silent server.

    Appends, and the reads that they depend on, use the link `writes`, by default the same link. `appends`
    measures appends.
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
        self._writes = writes or link
        self._keys = keys or Keys()
        self._append = self._writes.script(APPEND, replicated=True)
        self._append_beyond_limit = self._writes.script(APPEND_BEYOND_LIMIT, replicated=True)
        self._trim = link.script(TRIM)
        self._bounds = self._writes.script(BOUNDS)
        self._view = link.script(VIEW)
        self._extend = link.script(EXTEND)
        self._begin_import = link.script(BEGIN_IMPORT)
        self._metrics = (appends or AppendMetricsByLog()).of("partition")
        self._partitions: dict[str, _Partition] = {}

    @override
    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
        *,
        beyond_limit: bool = False,
    ) -> None:
        with self._metrics.timed(len(batches), sum([len(batch.data) for batch in batches])):
            # Snapshots alone leave no gap: the next batch is compared with the log end.
            base = batches[0].base_offset if batches else _ANY_OFFSET
            while (
                stored := self._partition(partition)
            ).checked_incarnation != self._writes.server_incarnation and batches:
                await self._check_end(partition, base)
            args: list[Part] = [epoch, base, len(batches), len(segments)]
            for batch in batches:
                args += (f"{batch.last_offset + 1}-0", batch.data)
            for row in segments:
                args += (f"{row.end_offset}-0", row.base_offset, row.size, row.max_timestamp)
            for snapshot in snapshots.items():
                args += snapshot
            keys = (stored.lease, stored.log, stored.index, stored.snapshots)
            script = self._append_beyond_limit if beyond_limit else self._append
            try:
                await script.send(keys, args)
            except RedisError as error:
                raise write_failure(partition, error) from error

    @override
    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        log = self._partition(partition).log
        batches: list[StoredBatch] = []
        # A few entries first, then as many as should fit according to their size.
        start, remaining, count = f"{offset + 1}-0", max_bytes, _FIRST_COUNT
        while True:
            entries = await await_read(partition, self._link.send("XRANGE", log, start, "+", "COUNT", count))
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
    async def read_at(self, partition: str, offsets: Sequence[int]) -> list[StoredBatch]:
        log = self._partition(partition).log
        found: dict[int, StoredBatch] = {}
        for position in range(0, len(offsets), _READS_AT_ONCE):
            # All requests of a portion are sent before the first reply is awaited.
            portion = [
                self._link.send("XRANGE", log, f"{offset + 1}-0", "+", "COUNT", 1)
                for offset in offsets[position : position + _READS_AT_ONCE]
            ]
            for entries in [await await_read(partition, reply) for reply in portion]:
                for _, (_, data) in entries:
                    batch = StoredBatch.from_bytes(data)
                    found[batch.base_offset] = batch
        return [found[base] for base in sorted(found)]

    @override
    async def bounds(self, partition: str) -> Bounds:
        stored, incarnation = self._partition(partition), self._writes.server_incarnation
        bounds = await self._read_bounds(partition)
        stored.checked_incarnation = incarnation
        return bounds

    @override
    async def log_end(self, partition: str) -> int:
        # It leaves `checked_incarnation`: the next append still compares the log end.
        return (await self._read_bounds(partition)).log_end_offset

    @override
    async def segments(self, partition: str) -> list[Segment]:
        stored = self._partition(partition)
        log_start = self._link.send("HGET", stored.meta, "log_start")
        rows = self._link.send("XRANGE", stored.index, "-", "+")
        start = int(await await_read(partition, log_start) or 0)
        segments = [
            Segment(int(base), int(row_id.removesuffix(b"-0")), int(size), int(newest))
            for row_id, (_, base, _, size, _, newest) in await await_read(partition, rows)
        ]
        return [segment for segment in segments if segment.end_offset > start]

    @override
    async def snapshots(self, partition: str) -> dict[str, bytes]:
        reply = self._link.send("HGETALL", self._partition(partition).snapshots)
        return _named(await await_read(partition, reply))

    async def view(self, partition: str) -> tuple[Bounds, dict[str, bytes]]:
        """Returns bounds and snapshots of one moment: those of all records below the log end.

        Raises LogUnavailable.
        """
        stored = self._partition(partition)
        keys = (stored.log, stored.meta, stored.snapshots)
        log_start, log_end, pairs = await await_read(partition, self._view.send(keys, ()))
        return Bounds(int(log_start), log_end), _named(pairs)

    async def begin_import(self, partition: str, epoch: int, archive_id: str) -> bool:
        """Empties a log that an import of another archive began; returns False for one that no import began.

        The caller appends next, after it read `bounds`. Raises LogFenced, LogNotWritten, LogOutcomeUnknown.
        """
        stored = self._partition(partition)
        keys = (stored.lease, stored.log, stored.index, stored.meta, stored.snapshots)
        return bool(await await_write(partition, self._begin_import.send(keys, (epoch, archive_id))))

    async def extend(self, partition: str, epoch: int, log_end_offset: int) -> None:
        """Moves the end of a log without batches up (never down).

        Raises LogFenced, LogNotWritten, LogOutcomeUnknown.
        """
        stored = self._partition(partition)
        await await_write(partition, self._extend.send((stored.lease, stored.log), (epoch, log_end_offset)))

    @override
    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, deleted_snapshots: Sequence[str] = ()
    ) -> None:
        stored = self._partition(partition)
        keys = (stored.lease, stored.log, stored.index, stored.meta, stored.snapshots)
        await await_write(partition, self._trim.send(keys, (epoch, log_start_offset, *deleted_snapshots)))

    @override
    async def partitions(self) -> set[str]:
        found: set[str] = set()
        for node in self._link.nodes:
            cursor = b""
            while cursor != b"0":
                page = (cursor or b"0", "MATCH", self._keys.all_of("partition"), "COUNT", _SCAN_COUNT)
                cursor, keys = await await_read("partitions", node.send("SCAN", *page))
                found.update(self._keys.resource_of(key.decode()) for key in keys)
        return found

    @override
    async def delete(self, partition: str) -> None:
        stored = self._partition(partition)
        del self._partitions[partition]
        keys = (stored.log, stored.index, stored.meta, stored.snapshots)
        await await_write(partition, self._link.send("UNLINK", *keys))

    async def _read_bounds(self, partition: str) -> Bounds:
        stored = self._partition(partition)
        log_start, log_end = await await_read(partition, self._bounds.send((stored.log, stored.meta), ()))
        return Bounds(int(log_start), log_end)

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

    def _partition(self, partition: str) -> _Partition:
        stored = self._partitions.get(partition)
        if stored is None:
            keys, log = self._keys, self._keys.log(partition)
            stored = self._partitions[partition] = _Partition(
                keys.lease(partition),
                log,
                f"{log}:index",
                keys.meta(partition),
                f"{log}:notes",
                self._writes.server_incarnation,
            )
        return stored


def _named(pairs: Sequence[bytes]) -> dict[str, bytes]:
    """Returns the values of a hash by name, of a reply that lists both in turns."""
    each = iter(pairs)
    return {name.decode(): value for name, value in zip(each, each, strict=True)}
