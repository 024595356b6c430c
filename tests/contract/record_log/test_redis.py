"""The guarantees of every record store: the store in memory, and Redis streams on each available server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leases.port import LeaseStore, LeasesUnavailable
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.record_log.appends import Noted
from sharebroker_server.record_log.core.batch import TimedOffset, parse_headers
from sharebroker_server.record_log.core.log_state import MemoryLimits, Segment
from sharebroker_server.record_log.core.notes import Note, NotesDraft
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.port import Bounds, RecordStore
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.links import connect
from sharebroker_server.stream_log.port import (
    LogFenced,
    LogFull,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogUnavailable,
)
from sharebroker_server.telemetry.metrics import AppendMetricsByLog
from tests.durability.append_only import AppendOnlyFile
from tests.support.lease import Lease
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import Server, binaries, kinds, running
from tests.testkit.shared_servers import CLUSTER, Servers
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import LIMIT, batch, stored

NAME = "partition:7f3c:0"
SIZE = len(stored(0).data)
QUICK = LinkSettings(stall=2.0, attempt=1.0, backoff=0.01, backoff_max=0.05)


@dataclass
class Stores:
    """A record store, and the leases that fence it."""

    leases: LeaseStore
    records: RecordStore
    appends: AppendMetricsByLog = field(default_factory=AppendMetricsByLog)

    async def owned(self, owner: str = "1/1") -> int:
        """Claims the partition and returns its epoch."""
        return (await self.leases.claim(NAME, owner, 60.0, force=True)).epoch

    async def filled(self, count: int) -> int:
        """Appends `count` batches of three records from offset 0; returns the epoch."""
        epoch = await self.owned()
        await self.records.append(NAME, epoch, [stored(3 * i) for i in range(count)])
        return epoch

    async def bases(self, offset: int, max_bytes: int = 10**9) -> list[int]:
        return [b.base_offset for b in await self.records.read(NAME, offset, max_bytes)]


class StoredLease(Lease):
    """A lease in Redis; `reclaimed` is called whenever its epoch had to be raised."""

    def __init__(self, link: RedisLink, reclaimed: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._leases = RedisLeaseStore(link)
        self._reclaimed = reclaimed

    async def reclaim(self) -> int:
        try:
            self.epoch = (await self._leases.claim(NAME, "1/1", 60.0, force=True)).epoch
        finally:
            self._reclaimed()
        return self.epoch


@pytest.fixture(params=["memory", *kinds(), CLUSTER])
async def stores(request: pytest.FixtureRequest, redis_servers: Servers) -> AsyncIterator[Stores]:
    if request.param == "memory":
        leases = MemoryLeaseStore()
        yield Stores(leases, MemoryRecordStore(leases.epoch_of))
        return
    link = await connect(redis_servers.fresh(request.param))
    appends = AppendMetricsByLog()
    yield Stores(RedisLeaseStore(link), RedisRecordStore(link, appends=appends), appends)
    await link.close()


REDIS = pytest.mark.parametrize("stores", [*kinds(), CLUSTER], indirect=True)
"""For what the store in memory does not have."""


async def test_unknown_log_is_empty(stores: Stores) -> None:
    assert await stores.records.bounds(NAME) == Bounds(0, 0)
    assert await stores.records.read(NAME, 0, 100) == []
    assert await stores.records.segments(NAME) == []


async def test_appended_bytes_are_read_back(stores: Stores) -> None:
    epoch = await stores.owned()
    batches = [stored(0, 1, 0), stored(1, 500, 100), stored(501, 2)]
    await stores.records.append(NAME, epoch, batches[:1])
    await stores.records.append(NAME, epoch, batches[1:])
    assert await stores.records.read(NAME, 0, 10**9) == batches
    assert await stores.records.bounds(NAME) == Bounds(0, 503)


@pytest.mark.parametrize(
    ("offset", "bases"), [(0, [0, 3, 6]), (2, [0, 3, 6]), (3, [3, 6]), (8, [6]), (9, []), (100, [])]
)
async def test_reading_begins_with_the_batch_that_contains_the_offset(
    stores: Stores, offset: int, bases: list[int]
) -> None:
    await stores.filled(3)
    assert await stores.bases(offset) == bases


@pytest.mark.parametrize(
    ("max_bytes", "count"),
    [
        (0, 1),
        (SIZE, 1),
        (2 * SIZE - 1, 1),
        (2 * SIZE, 2),
        (10 * SIZE + 5, 10),
        (10**9, 600),
        (SIZE * 400, 400),
    ],
)
async def test_read_stops_at_the_limit_but_returns_one_batch(
    stores: Stores, max_bytes: int, count: int
) -> None:
    await stores.filled(600)
    assert await stores.bases(0, max_bytes) == list(range(0, 3 * count, 3))


async def test_batches_are_read_by_their_offsets(stores: Stores) -> None:
    await stores.filled(400)
    offsets = [0, 2, 4, *range(30, 1190, 3), 1199, 5000]
    found = await stores.records.read_at(NAME, offsets)
    assert [each.base_offset for each in found] == [0, 3, *range(30, 1190, 3), 1197]
    assert found[:2] == [stored(0), stored(3)]
    assert await stores.records.read_at(NAME, []) == []
    assert await stores.records.read_at("partition:other:0", [3]) == []


async def test_a_large_batch_among_small_ones_counts_by_its_size(stores: Stores) -> None:
    epoch = await stores.owned()
    small = [stored(3 * i) for i in range(6)]
    large = stored(18, 1, 100_000)
    await stores.records.append(NAME, epoch, [*small, large, stored(19, 1)])
    assert await stores.bases(0, 6 * SIZE + 99_000) == [0, 3, 6, 9, 12, 15]
    assert await stores.bases(18, 10) == [18]


@REDIS
async def test_appends_are_counted_by_batches_and_bytes(stores: Stores) -> None:
    batches = [stored(0), stored(3, 2, 100)]
    await stores.records.append(NAME, await stores.owned(), batches, [Segment(0, 3, 1, 1)], {"p7": b"1"})
    counted = stores.appends.of("partition")
    assert counted.bytes == sum(len(batch.data) for batch in batches)
    assert (counted.records.sum, counted.failures) == (2, {})


@REDIS
async def test_a_failed_append_is_counted_by_its_error(stores: Stores) -> None:
    with pytest.raises(LogFenced):
        await stores.records.append(NAME, 1, [stored(0)])
    counted = stores.appends.of("partition")
    assert (counted.bytes, counted.failures) == (0, {"LogFenced": 1})


async def test_append_requires_a_lease(stores: Stores) -> None:
    with pytest.raises(LogFenced):
        await stores.records.append(NAME, 1, [stored(0)])
    assert await stores.records.bounds(NAME) == Bounds(0, 0)


async def test_former_owner_is_fenced(stores: Stores) -> None:
    earlier = await stores.filled(1)
    later = await stores.owned("1/2")
    with pytest.raises(LogFenced):
        await stores.records.append(NAME, earlier, [stored(3)])
    with pytest.raises(LogFenced):
        await stores.records.trim(NAME, earlier, 3)
    await stores.records.append(NAME, later, [stored(3)])
    assert await stores.bases(0) == [0, 3]


@pytest.mark.parametrize("base", [0, 3, 5])
async def test_overlapping_append_writes_nothing(stores: Stores, base: int) -> None:
    epoch = await stores.filled(2)
    with pytest.raises(LogOutOfOrder):
        await stores.records.append(NAME, epoch, [stored(base, 50), stored(base + 50)], [Segment(0, 6, 1, 1)])
    assert await stores.bases(0) == [0, 3]
    assert await stores.records.segments(NAME) == []


async def test_a_gap_is_allowed_and_reading_inside_finds_the_next_batch(stores: Stores) -> None:
    epoch = await stores.filled(1)
    await stores.records.append(NAME, epoch, [stored(100)])
    assert await stores.bases(50) == [100]
    assert await stores.records.bounds(NAME) == Bounds(0, 103)


async def test_index_rows_are_kept_beside_the_batches(stores: Stores) -> None:
    epoch = await stores.filled(4)
    rows = [Segment(0, 6, 170, 1002), Segment(6, 12, 170, -1)]
    await stores.records.append(NAME, epoch, [stored(12)], rows[:1])
    await stores.records.append(NAME, epoch, [stored(15)], rows[1:])
    assert await stores.records.segments(NAME) == rows


@pytest.mark.parametrize(
    ("start", "bases", "rows"),
    [(0, [0, 3, 6], 2), (2, [0, 3, 6], 2), (3, [3, 6], 2), (7, [6], 1), (9, [], 0)],
)
async def test_trimming_moves_the_log_start(stores: Stores, start: int, bases: list[int], rows: int) -> None:
    epoch = await stores.owned()
    segments = [Segment(0, 6, 1, 1), Segment(6, 9, 1, 1)]
    await stores.records.append(NAME, epoch, [stored(0), stored(3), stored(6)], segments)
    await stores.records.trim(NAME, epoch, start)
    assert await stores.bases(0) == bases
    assert await stores.records.bounds(NAME) == Bounds(start, 9)
    assert await stores.records.segments(NAME) == segments[2 - rows :]


async def test_the_log_start_never_moves_back(stores: Stores) -> None:
    epoch = await stores.filled(3)
    await stores.records.trim(NAME, epoch, 6)
    await stores.records.trim(NAME, epoch, 3)
    assert await stores.records.bounds(NAME) == Bounds(6, 9)


async def test_empty_trimmed_log_keeps_its_end(stores: Stores) -> None:
    epoch = await stores.filled(3)
    await stores.records.trim(NAME, epoch, 9)
    with pytest.raises(LogOutOfOrder):
        await stores.records.append(NAME, epoch, [stored(5, 100)])
    await stores.records.append(NAME, epoch, [stored(9)])
    assert await stores.records.bounds(NAME) == Bounds(9, 12)


async def test_an_append_without_batches_stores_snapshots_under_the_fence(stores: Stores) -> None:
    epoch = await stores.filled(2)
    await stores.records.append(NAME, epoch, (), (), {"p7": b"x"}, beyond_limit=True)
    assert await stores.records.snapshots(NAME) == {"p7": b"x"}
    assert (await stores.records.bounds(NAME)).log_end_offset == 6
    later = await stores.owned("1/2")
    await stores.records.append(NAME, later, (), (), {"p7": b"z"})
    with pytest.raises(LogFenced):
        await stores.records.append(NAME, epoch, (), (), {"p7": b"y"}, beyond_limit=True)
    assert await stores.records.snapshots(NAME) == {"p7": b"z"}
    await stores.records.append(NAME, later, [stored(6)])


async def test_row_below_the_log_start_is_hidden(stores: Stores) -> None:
    epoch = await stores.filled(2)
    await stores.records.trim(NAME, epoch, 6)
    await stores.records.append(NAME, epoch, [stored(6)], [Segment(0, 6, 1, 1)])
    assert await stores.records.segments(NAME) == []


async def test_a_deleted_log_starts_again(stores: Stores) -> None:
    epoch = await stores.filled(2)
    await stores.records.trim(NAME, epoch, 3)
    await stores.records.delete(NAME)
    await stores.records.delete(NAME)
    assert await stores.records.bounds(NAME) == Bounds(0, 0)
    await stores.records.append(NAME, epoch, [stored(0)])
    assert await stores.bases(0) == [0]


@REDIS
async def test_an_import_begins_a_log_of_another_archive_again(stores: Stores) -> None:
    records = stores.records
    assert isinstance(records, RedisRecordStore)
    epoch = await stores.owned()
    for archive_id, bounds in [("a", Bounds(0, 0)), ("a", Bounds(3, 6)), ("b", Bounds(0, 0))]:
        assert await records.begin_import(NAME, epoch, archive_id)
        assert await records.bounds(NAME) == bounds
        if not bounds.log_end_offset:
            batches = [stored(0), stored(3)]
            await records.append(NAME, epoch, batches, [Segment(0, 6, 1, 1)], {"n1": archive_id.encode()})
            await records.trim(NAME, epoch, 3)
    assert await records.snapshots(NAME) == {"n1": b"b"}
    assert await records.segments(NAME) == [Segment(0, 6, 1, 1)]


@REDIS
async def test_a_log_that_no_import_began_is_kept(stores: Stores) -> None:
    records = stores.records
    assert isinstance(records, RedisRecordStore)
    epoch = await stores.filled(2)
    assert not await records.begin_import(NAME, epoch, "a")
    await records.append(NAME, epoch, [stored(6)])
    assert await stores.bases(0) == [0, 3, 6]


@REDIS
async def test_a_fenced_import_does_not_empty_a_log(stores: Stores) -> None:
    records = stores.records
    assert isinstance(records, RedisRecordStore)
    epoch = await stores.owned()
    later = await stores.owned("1/2")
    assert await records.begin_import(NAME, later, "b")
    await records.append(NAME, later, [stored(0)], (), {"n1": b"x"})
    for archive_id in "ab":
        with pytest.raises(LogFenced):
            await records.begin_import(NAME, epoch, archive_id)
    assert await stores.bases(0) == [0]
    assert await records.snapshots(NAME) == {"n1": b"x"}
    assert await records.begin_import(NAME, later, "b")
    assert await stores.bases(0) == [0], "the id of the archive is unchanged"


async def test_partitions_are_listed_until_deleted(stores: Stores) -> None:
    await stores.filled(2)
    assert await stores.records.partitions() == {NAME}
    await stores.records.delete(NAME)
    await stores.leases.remove(NAME)
    assert await stores.records.partitions() == set()


async def test_partitions_are_independent(stores: Stores) -> None:
    await stores.filled(1)
    assert await stores.records.read("partition:7f3c:1", 0, 100) == []


async def test_leader_opens_the_log_of_its_predecessor(stores: Stores) -> None:
    settings = LogSettings(limits=MemoryLimits(hot_cache_bytes=SIZE, segment_bytes=3 * SIZE))

    epoch = await stores.owned()
    first = await PartitionLog.open(NAME, epoch, stores.records, Lease(epoch=epoch), settings)
    appended = await asyncio.gather(*(first.append(batch(3, time=1000 * i)) for i in range(20)))
    assert [a.base_offset for a in appended] == list(range(0, 60, 3))
    await first.append(batch(3, time=20_000))
    await first.delete_records(10)
    epoch = await stores.owned("1/2")
    second = await PartitionLog.open(NAME, epoch, stores.records, Lease(epoch=epoch), settings)
    assert (second.log_start_offset, second.log_end_offset) == (10, 63)
    assert await second.offset_for_timestamp(15_001) == TimedOffset(46, 15_001)
    assert await second.append(batch(2)) is not None
    with pytest.raises(KafkaError) as fenced:
        await first.append(batch(1))
    assert fenced.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [b.base_offset for b in await second.read(10, 10**9)] == [*range(9, 63, 3), 63]


@pytest.fixture(params=sorted(binaries()))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Starts a server for one test, with an append-only file."""
    with running(request.param, "--appendonly", "yes", "--appendfsync", "always") as own:
        yield own


@pytest.fixture
async def link(server: Server) -> AsyncIterator[RedisLink]:
    link = await RedisLink.connect(server.url, settings=QUICK)
    yield link
    await link.close()


async def test_full_memory_rejects_appends_not_reads_or_trims(link: RedisLink) -> None:
    stores = Stores(RedisLeaseStore(link), RedisRecordStore(link))
    epoch = await stores.filled(3)
    await link.call("CONFIG", "SET", "maxmemory", 1, timeout=5.0)
    with pytest.raises(LogFull, match="OOM"):
        await stores.records.append(NAME, epoch, [stored(9)])
    assert await stores.bases(0) == [0, 3, 6]
    await stores.records.trim(NAME, epoch, 3)
    assert await stores.records.bounds(NAME) == Bounds(3, 9)
    await link.call("CONFIG", "SET", "maxmemory", 0, timeout=5.0)
    await stores.records.append(NAME, epoch, [stored(9)])
    assert await stores.bases(0) == [3, 6, 9]


async def test_full_memory_accepts_an_append_beyond_the_limit(link: RedisLink) -> None:
    stores = Stores(RedisLeaseStore(link), RedisRecordStore(link))
    epoch = await stores.filled(3)
    await link.call("CONFIG", "SET", "maxmemory", 1, timeout=5.0)
    await stores.records.append(NAME, epoch, [stored(9)], beyond_limit=True)
    assert await stores.bases(0) == [0, 3, 6, 9]


async def test_bounds_survive_a_rewrite_of_the_file_and_a_restart(server: Server, link: RedisLink) -> None:
    stores = Stores(RedisLeaseStore(link), RedisRecordStore(link))
    epoch = await stores.filled(3)
    await stores.records.trim(NAME, epoch, 9)
    await link.call("BGREWRITEAOF", timeout=5.0)
    while b"aof_rewrite_in_progress:1" in await link.call("INFO", "persistence", timeout=5.0):
        pass
    server.kill()
    server.restart()
    again = await RedisLink.connect(server.url, settings=QUICK)
    assert await RedisRecordStore(again).bounds(NAME) == Bounds(9, 9)
    await again.close()


async def test_leader_survives_a_redis_crash(server: Server, link: RedisLink) -> None:
    lease = StoredLease(link)
    log = await PartitionLog.open(NAME, await lease.reclaim(), RedisRecordStore(link), lease)
    assert (await log.append(batch(3))).base_offset == 0
    server.kill()
    with pytest.raises(KafkaError) as rejected:
        await log.append(batch(3))
    assert rejected.value.retriable
    assert [b.base_offset for b in await log.read(0, 1)] == [0]
    server.restart()
    await eventually(lambda: link.connected and log.phase is LogPhase.OPEN)
    assert (await log.append(batch(3))).last_offset == log.log_end_offset - 1
    await log.close()


async def test_append_detects_lost_batches_after_the_log_end_was_read(
    server: Server, link: RedisLink
) -> None:
    stores, file = Stores(RedisLeaseStore(link), RedisRecordStore(link)), AppendOnlyFile(server.directory)
    epoch = await stores.filled(1)
    on_disk = file.size
    await stores.records.append(NAME, epoch, [stored(3)])
    assert await stores.records.log_end(NAME) == 6
    before = link.server_incarnation
    server.kill()
    file.cut(on_disk)
    server.restart()
    await eventually(lambda: link.server_incarnation > before)
    assert await stores.records.log_end(NAME) == 3
    with pytest.raises(LogOutOfOrder, match="the log ends at 3"):
        await stores.records.append(NAME, epoch, [stored(6)])


async def test_lost_reply_is_resolved_by_reading_the_log(server: Server, link: RedisLink) -> None:
    async with FaultProxy(server.port) as proxy:
        through = await RedisLink.connect(proxy.url, settings=QUICK)
        lease = StoredLease(link, proxy.heal)
        log = await PartitionLog.open(NAME, await lease.reclaim(), RedisRecordStore(through), lease)
        await log.append(batch(3))
        proxy.swallow_replies = True
        with pytest.raises(KafkaError) as unknown:
            await log.append(batch(4))
        assert unknown.value.code is ErrorCode.REQUEST_TIMED_OUT
        await eventually(lambda: log.phase is LogPhase.OPEN)
        assert (log.log_end_offset, log.epoch) == (7, 2)
        assert (await log.append(batch(1))).base_offset == 7
        await log.close()
        await through.close()


async def test_redis_errors_are_classified(server: Server, link: RedisLink) -> None:
    stores = Stores(RedisLeaseStore(link), RedisRecordStore(link))
    epoch = await stores.filled(1)
    server.kill()
    with pytest.raises((LogNotWritten, LogOutcomeUnknown)):
        await stores.records.append(NAME, epoch, [stored(3)])
    for write in (stores.records.append(NAME, epoch, [stored(3)]), stores.records.trim(NAME, epoch, 1)):
        with pytest.raises(LogNotWritten):
            await write
    with pytest.raises(LogNotWritten):
        await stores.records.delete(NAME)
    for read in (stores.records.bounds(NAME), stores.records.segments(NAME), stores.records.read(NAME, 0, 1)):
        with pytest.raises(LogUnavailable):
            await read
    with pytest.raises(LeasesUnavailable):
        await stores.owned()


async def test_memory_store_fails_on_demand() -> None:
    store = MemoryRecordStore()
    for fault in (Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN, Fault.FENCED):
        store.fail_next_append(fault)
    with pytest.raises(LogNotWritten):
        await store.append(NAME, 1, [stored(0)])
    with pytest.raises(LogOutcomeUnknown):
        await store.append(NAME, 1, [stored(0)])
    assert await store.bounds(NAME) == Bounds(0, 0)
    with pytest.raises(LogOutcomeUnknown):
        await store.append(NAME, 1, [stored(0)])
    assert await store.bounds(NAME) == Bounds(0, 3)
    for _ in range(2):
        with pytest.raises(LogFenced):
            await store.append(NAME, 1, [stored(3)])
    store.away = True
    with pytest.raises(LogNotWritten):
        await store.delete(NAME)
    with pytest.raises(LogNotWritten):
        await store.trim(NAME, 1, 1)
    assert store.appends == [(NAME, 1)]


async def test_snapshots_are_stored_with_appends_until_deleted(stores: Stores) -> None:
    epoch = await stores.owned()
    assert await stores.records.snapshots(NAME) == {}
    await stores.records.append(NAME, epoch, [stored(0)], (), {"a": b"1", "b": b"\x00\xff"})
    await stores.records.append(NAME, epoch, [stored(3)], [Segment(0, 3, SIZE, 1)], {"a": b"2"})
    assert await stores.records.snapshots(NAME) == {"a": b"2", "b": b"\x00\xff"}
    await stores.records.trim(NAME, epoch, 3)
    assert await stores.records.snapshots(NAME) == {"a": b"2", "b": b"\x00\xff"}
    await stores.records.trim(NAME, epoch, 3, ["b", "c"])
    assert await stores.records.snapshots(NAME) == {"a": b"2"}
    assert await stores.records.bounds(NAME) == Bounds(3, 6)
    await stores.records.delete(NAME)
    assert await stores.records.snapshots(NAME) == {}


async def test_failed_append_stores_no_snapshots(stores: Stores) -> None:
    epoch = await stores.filled(1)
    with pytest.raises(LogOutOfOrder):
        await stores.records.append(NAME, epoch, [stored(1)], (), {"a": b"1"})
    with pytest.raises(LogFenced):
        await stores.records.append(NAME, epoch - 1, [stored(3)], (), {"a": b"1"})
    assert await stores.records.snapshots(NAME) == {}


async def test_producers_and_transactions_outlive_their_leader(stores: Stores) -> None:
    def batch_of(sequence: int, *, transactional: bool = False) -> bytes:
        producer = (8 if transactional else 7, 0, sequence)
        return batch(2, producer=producer, transactional=transactional)

    epoch = await stores.owned()
    first = await PartitionLog.open(NAME, epoch, stores.records, Lease(epoch=epoch))
    await asyncio.gather(*(first.append(batch_of(2 * n)) for n in range(3)))
    for commit in (False, True):
        verified = Verified(first.log_end_offset, renews_epoch=False)
        await first.append(batch_of(0 if not commit else 2, transactional=True), verified)
        if not commit:
            await first.end_transaction(Marker(8, 0, 1, commit))
    epoch = await stores.owned("1/2")
    second = await PartitionLog.open(NAME, epoch, stores.records, Lease(epoch=epoch))
    assert second.transactions.producers == first.transactions.producers
    assert (second.last_stable_offset, second.log_end_offset) == (9, 11)
    assert [t[:3] for t in second.transactions.aborted_in(0, 11)] == [(8, 6, 8)]
    assert (await second.append(batch_of(2))).base_offset == 2
    with pytest.raises(KafkaError) as gap:
        await second.append(batch_of(8))
    assert gap.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await second.append(batch_of(6))).base_offset == 11
    assert await second.delete_records(9) == 9
    assert await second.expire_producers(2**60) == 1
    assert set(await stores.records.snapshots(NAME)) == {"p8"}


async def test_server_that_lost_the_log_end_rejects_a_gap(server: Server, link: RedisLink) -> None:
    lease, records = StoredLease(link), RedisRecordStore(link)
    log = await PartitionLog.open(NAME, await lease.reclaim(), records, lease)
    for _ in range(3):
        await log.append(batch(3))
    await link.call("UNLINK", "sharebroker:{partition:7f3c:0}:log", timeout=5.0)
    server.kill()
    server.restart()
    await eventually(lambda: link.server_incarnation == 1)
    with pytest.raises(KafkaError) as rejected:
        await log.append(batch(3))
    assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await eventually(lambda: log.phase is LogPhase.OPEN)
    assert (await log.append(batch(3))).base_offset == 9
    assert [b.base_offset for b in await records.read(NAME, 0, 10**9)] == [0, 3, 6, 9]
    await log.close()


async def test_notes_are_stored_with_records_until_removed(stores: Stores) -> None:
    data = batch(3)

    def decide(notes: NotesDraft, base: int) -> Noted:
        known = notes.get("dlq:g\0t")
        return Noted(
            data,
            parse_headers(data, LIMIT),
            {
                "dlq:g\0t": Note(b"\x00" if known is None else known.value + b"\xff"),
                f"to:{base}": Note(b"", base, base + 2),
            },
        )

    epoch = await stores.owned()
    first = await PartitionLog.open(NAME, epoch, stores.records, Lease(epoch=epoch))
    for base in (0, 3):
        assert (await first.append_noted(decide, len(data))).base_offset == base
    await first.delete_records(4)
    epoch = await stores.owned("1/2")
    second = await PartitionLog.open(NAME, epoch, stores.records, Lease(epoch=epoch))
    assert {key: note.value for key, note in second.transactions.notes.items()} == {
        "dlq:g\0t": b"\x00\xff",
        "to:3": b"",
    }
    with pytest.raises(KafkaError):
        await first.append_noted(decide, len(data))
    await second.remove_notes(["dlq:g\0t"])
    assert set(await stores.records.snapshots(NAME)) == {"nto:3"}


@REDIS
async def test_a_view_has_bounds_and_snapshots_of_one_moment(stores: Stores) -> None:
    assert isinstance(stores.records, RedisRecordStore)
    assert await stores.records.view(NAME) == (Bounds(0, 0), {})
    epoch = await stores.filled(3)
    await stores.records.append(NAME, epoch, [], (), {"n1": b"x", "n2": b""})
    await stores.records.trim(NAME, epoch, 4)
    assert await stores.records.view(NAME) == (Bounds(4, 9), {"n1": b"x", "n2": b""})


@REDIS
async def test_an_empty_log_can_end_above_0(stores: Stores) -> None:
    assert isinstance(stores.records, RedisRecordStore)
    epoch = await stores.owned()
    await stores.records.trim(NAME, epoch, 9)
    for _ in range(2):
        await stores.records.extend(NAME, epoch, 9)
        assert await stores.records.bounds(NAME) == Bounds(9, 9)
    await stores.records.extend(NAME, epoch, 4)
    with pytest.raises(LogOutOfOrder):
        await stores.records.append(NAME, epoch, [stored(6)])
    await stores.records.append(NAME, epoch, [stored(9)])
    assert await stores.bases(9) == [9]
    with pytest.raises(LogFenced):
        await stores.records.extend(NAME, epoch - 1, 20)
