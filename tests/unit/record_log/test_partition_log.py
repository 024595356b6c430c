from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leases.holder import LeaseLost
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.log_state import Limits
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.timestamp_bounds import TimestampBounds
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.memory import MemoryRecordStore
from sharebroker_server.record_log.offset_for_time import TimedOffset
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.settings import LogSettings
from sharebroker_server.stream_log.memory import Fault
from sharebroker_server.stream_log.port import LogUnavailable
from sharebroker_server.testkit.waiting import eventually
from tests.support.lease import Lease
from tests.unit.record_log.batches import batch, stored

NAME = "partition:t:0"
NOW = 1_700_000_000.0
SIZE = len(batch())


class World:
    def __init__(self) -> None:
        self.lease = Lease()
        self.store = MemoryRecordStore(epoch_of=lambda _: self.lease.epoch)
        self.now = NOW

    async def open(self, settings: LogSettings | None = None) -> PartitionLog:
        return await PartitionLog.open(
            NAME, self.lease.epoch, self.store, self.lease, settings, lambda: self.now
        )


@pytest.fixture
def world() -> World:
    return World()


async def error_of(call: Awaitable[Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value


async def code_of(call: Awaitable[Any]) -> ErrorCode:
    return (await error_of(call)).code


async def offset_since(log: PartitionLog, timestamp: int) -> int | None:
    found = await log.offset_for_timestamp(timestamp)
    return None if found is None else found.offset


def offsets(batches: list[Any] | None) -> list[tuple[int, int]]:
    assert batches is not None
    return [(b.base_offset, b.last_offset) for b in batches]


async def settled() -> None:
    """Let everything run that can, until only held appends are left."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until_open(log: PartitionLog) -> None:
    await eventually(lambda: log.phase is LogPhase.OPEN)


async def test_append_answers_with_offsets_and_makes_records_readable(world: World) -> None:
    log = await world.open()
    assert await log.append(batch(3)) == Appended(0, 2, -1)
    assert await log.append(batch(2) + batch(5)) == Appended(3, 9, -1)
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    assert offsets(log.read_hot(0, 10**6)) == [(0, 2), (3, 4), (5, 9)]
    assert offsets(await log.read(4, 1)) == [(3, 4)]
    assert await log.read(10, 10**6) == []


async def test_a_leader_whose_lease_may_be_over_reads_nothing(world: World) -> None:
    log = await world.open(LogSettings(limits=Limits(hot_cache_bytes=1)))
    await log.append(batch() + batch())
    world.lease.held = False
    assert await code_of(log.read(3, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.lease.held = True
    read = world.store.read

    async def slowly(partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        world.lease.held = False
        return await read(partition, offset, max_bytes)

    world.store.read = slowly  # type: ignore[method-assign]  # the lease ends while the store is asked
    assert await code_of(log.read(0, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_batches_carry_no_lease_epoch_as_leader_epoch(world: World) -> None:
    """Kafka's consumers compare it with the brokers', which is another count."""
    world.lease.epoch = 7
    log = await world.open()
    await log.append(batch())
    assert [header_of(b.data).leader_epoch for b in await log.read(0, 1)] == [0]


async def test_log_append_time_comes_from_the_clock(world: World) -> None:
    log = await world.open(LogSettings(log_append_time=True))
    assert (await log.append(batch())).log_append_time == int(NOW * 1000)
    (stored,) = await log.read(0, 1)
    assert {r.timestamp for r in DefaultRecordBatch(stored.data)} == {int(NOW * 1000)}


async def test_times_far_from_now_are_refused(world: World) -> None:
    now = round(NOW * 1000)
    times = TimestampBounds(before_max_ms=5000, after_max_ms=1000)
    log = await world.open(LogSettings(timestamp_bounds=times))
    for time in (now - 5000, now, now + 998, -1):
        await log.append(batch(1 if time < 0 else 3, time=time))
    for time in (now - 5001, now + 999, 0):
        assert await code_of(log.append(batch(3, time=time))) is ErrorCode.INVALID_TIMESTAMP
    assert log.log_end_offset == 10
    log.settings = LogSettings(timestamp_bounds=times, log_append_time=True)
    await log.append(batch(3, time=0))


async def test_bad_batches_take_no_offsets(world: World) -> None:
    log = await world.open(LogSettings(max_message_bytes=200))
    assert await code_of(log.append(b"junk")) is ErrorCode.CORRUPT_MESSAGE
    assert await code_of(log.append(batch(10, 100))) is ErrorCode.MESSAGE_TOO_LARGE
    assert await log.append(batch()) == Appended(0, 2, -1)


async def test_appends_that_arrive_meanwhile_go_together(world: World) -> None:
    log = await world.open()
    world.store.hold()
    answers = [asyncio.ensure_future(log.append(batch(2)))]
    await settled()
    answers += [asyncio.ensure_future(log.append(batch(2))) for _ in range(5)]
    await settled()
    assert log.log_end_offset == 0
    world.store.release()
    assert [a.base_offset for a in await asyncio.gather(*answers)] == [0, 2, 4, 6, 8, 10]
    assert world.store.appends == [(NAME, 1), (NAME, 5)]


async def test_a_group_is_bounded(world: World) -> None:
    log = await world.open(LogSettings(max_group_bytes=2 * SIZE))
    await asyncio.gather(*(log.append(batch()) for _ in range(5)))
    assert world.store.appends == [(NAME, 2), (NAME, 2), (NAME, 1)]


async def test_too_much_waiting_is_throttled_and_the_rest_goes_through(world: World) -> None:
    log = await world.open(LogSettings(max_pending_bytes=2 * SIZE))
    world.store.hold()
    first = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = [asyncio.ensure_future(log.append(batch())) for _ in range(2)]
    await settled()
    error = await error_of(log.append(batch()))
    assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert error.retriable
    assert error.retry_after is not None
    world.store.release()
    assert [a.base_offset for a in await asyncio.gather(first, *waiting)] == [0, 3, 6]


async def test_one_append_above_the_limit_is_taken_when_nothing_waits(world: World) -> None:
    log = await world.open(LogSettings(max_pending_bytes=1))
    assert (await log.append(batch())).base_offset == 0


async def test_a_caller_that_gives_up_takes_nothing_with_it(world: World) -> None:
    log = await world.open()
    world.store.hold()
    impatient, patient = (asyncio.ensure_future(log.append(batch())) for _ in range(2))
    await settled()
    impatient.cancel()
    world.store.release()
    assert (await patient).base_offset == 3
    assert log.log_end_offset == 6


async def test_a_caller_that_gave_up_is_not_told_of_a_failure(world: World) -> None:
    log = await world.open()
    world.store.hold()
    world.store.fail_next_append(Fault.NOT_WRITTEN)
    impatient, patient = (asyncio.ensure_future(log.append(batch())) for _ in range(2))
    await settled()
    impatient.cancel()
    world.store.release()
    assert await code_of(patient) is ErrorCode.KAFKA_STORAGE_ERROR
    assert impatient.cancelled()


async def test_wake_ups_come_after_the_log_end_has_moved(world: World) -> None:
    log = await world.open()
    ends: list[int] = []
    log.on_append.append(lambda: ends.append(log.log_end_offset))
    await log.append(batch(2))
    await log.append(batch(2))
    assert ends == [2, 4]


async def test_not_written_gives_the_offsets_back(world: World) -> None:
    log = await world.open()
    world.store.fail_next_append(Fault.NOT_WRITTEN)
    error = await error_of(log.append(batch()))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.retry_after is not None
    assert await log.append(batch()) == Appended(0, 2, -1)
    assert log.epoch == 1


async def test_fenced_closes_the_log(world: World) -> None:
    log = await world.open()
    await log.append(batch())
    world.lease.epoch = 2
    world.store.hold()
    sent = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = asyncio.ensure_future(log.append(batch()))
    await settled()
    world.store.release()
    for call in (sent, waiting, log.append(batch()), log.read(0, 1), log.delete_records(1)):
        assert await code_of(call) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.log_end_offset == 3


@pytest.mark.parametrize(("fault", "end"), [(Fault.DONE_UNKNOWN, 5), (Fault.LOST_UNKNOWN, 3)])
async def test_unknown_outcome_is_found_out_under_a_new_epoch(world: World, fault: Fault, end: int) -> None:
    log = await world.open()
    woken: list[int] = []
    await log.append(batch(3))
    log.on_append.append(lambda: woken.append(log.log_end_offset))
    world.store.fail_next_append(fault)
    assert await code_of(log.append(batch(2))) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert (log.epoch, log.log_end_offset) == (2, end)
    assert woken == [end]
    assert await log.append(batch(1)) == Appended(end, end, -1)
    assert [b.last_offset + 1 for b in await log.read(0, 10**6)][-1] == end + 1


async def test_failure_that_no_store_promises_is_answered_and_found_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await world.open()

    async def fails(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "append", fails)
        assert await code_of(log.append(batch(1))) is ErrorCode.REQUEST_TIMED_OUT
    await eventually(lambda: log.phase is LogPhase.OPEN)
    assert (await log.append(batch(1))).base_offset == 0


async def test_while_the_outcome_is_unknown_reads_go_on_and_appends_are_refused(world: World) -> None:
    log = await world.open()
    await log.append(batch())
    world.lease.refusals = [LeasesUnavailable()]
    world.store.hold()
    world.store.fail_next_append(Fault.LOST_UNKNOWN)
    lost = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = asyncio.ensure_future(log.append(batch()))
    await settled()
    world.store.release()
    assert await code_of(lost) is ErrorCode.REQUEST_TIMED_OUT
    for call in (waiting, log.append(batch()), log.delete_records(-1), log.apply_retention(NOW, None)):
        assert await code_of(call) is ErrorCode.KAFKA_STORAGE_ERROR
    assert offsets(await log.read(0, 1)) == [(0, 2)]
    await until_open(log)
    assert (await log.append(batch())).base_offset == 3


async def test_recovery_waits_for_the_store(world: World) -> None:
    world.store.fail_next_append(Fault.DONE_UNKNOWN)
    original = world.lease.reclaim

    async def reclaim_while_away() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise LeasesUnavailable
        world.store.away = True
        asyncio.get_running_loop().call_later(0.06, setattr, world.store, "away", False)
        return await original()

    tries: list[int] = []
    world.lease.reclaim = reclaim_while_away  # type: ignore[method-assign]  # the store comes back at the third try
    log = await world.open()
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert (len(tries), log.epoch, log.log_end_offset) == (3, 2, 3)


async def test_a_lease_lost_during_recovery_closes_the_log(world: World) -> None:
    log = await world.open()
    world.lease.refusals = [LeaseLost(NAME)]
    world.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    assert await code_of(log.append(batch())) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_log_that_moved_behind_our_back_is_read_again(world: World) -> None:
    log, twin = await world.open(), await world.open()
    await twin.append(batch(4))
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    await until_open(log)
    assert (await log.append(batch())).base_offset == 4


async def test_what_the_store_has_lost_is_written_again_as_far_as_memory_has_it(world: World) -> None:
    log = await world.open(LogSettings(limits=Limits(hot_cache_bytes=2 * SIZE)))
    for _ in range(3):
        await log.append(batch(3))
    await world.store.delete(NAME)
    world.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert offsets(await world.store.read(NAME, 0, 10**6)) == [(3, 5), (6, 8)]
    assert await log.append(batch(2)) == Appended(9, 10, -1)
    assert offsets(await log.read(0, 10**6)) == [(3, 5), (6, 8), (9, 10)]


async def test_a_log_that_is_idle_notices_what_the_store_has_lost(world: World) -> None:
    log = await world.open()
    await log.append(batch(3))
    await log.recheck()
    assert (log.phase, log.epoch) == (LogPhase.OPEN, 1)
    await world.store.delete(NAME)
    world.store.away = True
    with pytest.raises(LogUnavailable):
        await log.recheck()
    world.store.away = False
    await log.recheck()
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    await until_open(log)
    assert offsets(await world.store.read(NAME, 0, 10**6)) == [(0, 2)]


async def test_what_is_written_again_may_be_written_or_not(world: World) -> None:
    log = await world.open()
    await log.append(batch(3))
    await world.store.delete(NAME)
    for fault in (Fault.LOST_UNKNOWN, Fault.NOT_WRITTEN, Fault.DONE_UNKNOWN):
        world.store.fail_next_append(fault)
    await log.recheck()
    await until_open(log)
    assert offsets(await world.store.read(NAME, 0, 10**6)) == [(0, 2)]
    assert world.lease.reclaims == 3  # before each write that an earlier one may still overtake


async def test_who_lost_its_lease_writes_nothing_again(world: World) -> None:
    log = await world.open()
    await log.append(batch(3))
    await world.store.delete(NAME)
    world.store.fail_next_append(Fault.FENCED)
    await log.recheck()
    await eventually(lambda: log.phase is LogPhase.CLOSED)
    assert await world.store.read(NAME, 0, 10**6) == []


async def test_a_store_that_lost_batches_gets_back_what_is_known_of_producers(world: World) -> None:
    log = await world.open()
    sent = batch(3, producer=(7, 0, 0))
    await log.append(sent)
    await world.store.delete(NAME)
    await log.recheck()
    await until_open(log)
    again = await world.open()
    assert await again.append(sent) == Appended(0, 2, -1)  # recognised, not appended
    assert again.log_end_offset == 3


async def test_opening_takes_up_where_the_log_was_left(world: World) -> None:
    settings = LogSettings(limits=Limits(hot_cache_bytes=2 * SIZE, segment_bytes=2 * SIZE))
    log = await world.open(settings)
    for _ in range(5):
        await log.append(batch(3))
    await log.delete_records(4)
    again = await world.open(settings)
    assert (again.log_start_offset, again.log_end_offset) == (4, 15)
    assert again._state.index.segments() == log._state.index.segments()
    assert offsets(again.read_hot(12, 10**6)) == [(12, 14)]
    assert offsets(await again.read(4, 10**6)) == offsets(await log.read(4, 10**6))


async def test_index_rows_reach_the_store_with_the_next_append(world: World) -> None:
    log = await world.open(LogSettings(limits=Limits(segment_bytes=2 * SIZE)))
    for _ in range(4):
        await log.append(batch(3))
    assert [row.end_offset for row in await world.store.segments(NAME)] == [6]
    world.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    await log.append(batch())
    assert [row.end_offset for row in await world.store.segments(NAME)] == [6, 12]


async def test_a_store_away_at_opening(world: World) -> None:
    world.store.away = True
    assert await code_of(world.open()) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_cold_reads_come_from_the_store(world: World) -> None:
    log = await world.open(LogSettings(limits=Limits(hot_cache_bytes=SIZE)))
    for _ in range(4):
        await log.append(batch(3))
    assert log.read_hot(0, 10**6) is None
    assert offsets(await log.read(1, 2 * SIZE)) == [(0, 2), (3, 5)]
    world.store.away = True
    assert offsets(await log.read(3, 1)) == [(3, 5)]  # read before, served from memory
    assert await code_of(log.read(0, 1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert offsets(await log.read(9, 1)) == [(9, 11)]


async def test_cold_reads_stop_at_the_high_watermark(world: World) -> None:
    log = await world.open(LogSettings(limits=Limits(hot_cache_bytes=SIZE)))
    for _ in range(3):
        await log.append(batch(3))
    twin = await world.open()
    await twin.append(batch(1))
    assert offsets(await log.read(0, 10**6)) == [(0, 2), (3, 5), (6, 8)]


async def test_reading_outside_the_log(world: World) -> None:
    log = await world.open()
    await log.append(batch())
    assert await code_of(log.read(4, 1)) is ErrorCode.OFFSET_OUT_OF_RANGE
    await log.delete_records(1)
    assert await code_of(log.read(0, 1)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(await log.read(1, 1)) == [(0, 2)]


async def test_delete_records(world: World) -> None:
    log = await world.open()
    await log.append(batch(3))
    assert await log.delete_records(2) == 2
    assert await log.delete_records(1) == 2
    assert await code_of(log.delete_records(4)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await log.delete_records(-1) == 3
    assert log.log_start_offset == log.log_end_offset == 3
    assert await log.append(batch(1)) == Appended(3, 3, -1)


async def test_retention_by_consumption_age_and_size(world: World) -> None:
    limits = Limits(segment_bytes=SIZE)
    log = await world.open(LogSettings(retention=Retention(-1, -1, consumed=True), limits=limits))
    for i in range(6):
        await log.append(batch(3, time=1000 * i))
    assert await log.apply_retention(NOW, None) == 0
    assert await log.apply_retention(NOW, 5) == 3
    log.settings = LogSettings(retention=Retention(2_000, -1), limits=limits)
    assert await log.apply_retention(4.5, None) == 9
    log.settings = LogSettings(retention=Retention(-1, SIZE), limits=limits)
    assert await log.apply_retention(NOW, None) == 15
    assert (await world.store.bounds(NAME)).log_start_offset == 15


async def test_a_trim_the_store_refuses_moves_nothing(world: World) -> None:
    log = await world.open()
    await log.append(batch())
    world.store.away = True
    assert await code_of(log.delete_records(-1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_start_offset == 0
    world.store.away = False
    world.lease.epoch = 5
    assert await code_of(log.delete_records(-1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.phase is LogPhase.CLOSED


async def test_a_trim_fenced_by_our_own_recovery_does_not_close_the_log(world: World) -> None:
    log = await world.open()
    await log.append(batch())
    log.phase = LogPhase.RECOVERING
    world.lease.epoch = 2
    assert await code_of(log._trim(1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.phase is LogPhase.RECOVERING


@pytest.mark.parametrize("codec", [0, 2, 4])
async def test_offset_for_timestamp(world: World, codec: int) -> None:
    log = await world.open(LogSettings(limits=Limits(segment_bytes=2 * SIZE)))
    for i in range(5):
        await log.append(batch(4, time=1000 * i, codec=codec))
    expected = [(0, 0), (1, 1), (3, 3), (4, 4), (1000, 4), (2002, 10), (2004, 12), (4003, 19), (4004, None)]
    assert [(ts, await offset_since(log, ts)) for ts, _ in expected] == expected
    await log.delete_records(5)
    assert await log.offset_for_timestamp(0) == TimedOffset(5, 1001)
    assert await log.offset_for_timestamp(1003) == TimedOffset(7, 1003)


async def test_offset_for_timestamp_with_log_append_time(world: World) -> None:
    log = await world.open(LogSettings(log_append_time=True))
    await log.append(batch(4))
    world.now = NOW + 1
    await log.append(batch(4))
    assert await log.offset_for_timestamp(int(NOW * 1000) + 1) == TimedOffset(4, int(NOW * 1000) + 1000)


async def test_offset_for_timestamp_of_a_batch_nobody_can_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.record_log.core.test_batch import patched

    # Such a batch is refused now; an older version kept it.
    monkeypatch.setattr("sharebroker_server.record_log.settings.check_records", lambda *_: None)
    log = await world.open()
    garbage = batch(4, codec=1)
    await log.append(patched(garbage, 61, ">I", 0xDEADBEEF))
    assert await offset_since(log, 1002) == 0


async def test_offset_for_timestamp_passes_records_without_one(world: World) -> None:
    log = await world.open()
    await log.append(batch(1, time=-1))
    assert await log.offset_for_timestamp(5) is None


async def test_close_finishes_what_is_on_its_way_and_refuses_the_rest(world: World) -> None:
    log = await world.open()
    world.store.hold()
    sent = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = asyncio.ensure_future(log.append(batch()))
    await settled()
    closing = asyncio.ensure_future(log.close())
    assert await code_of(waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.store.release()
    assert (await sent).base_offset == 0
    await closing
    await log.close()
    assert log.phase is LogPhase.CLOSED


async def test_close_interrupts_a_recovery(world: World) -> None:
    log = await world.open()
    world.lease.refusals = [LeasesUnavailable() for _ in range(1000)]
    world.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await log.close()
    assert log.phase is LogPhase.CLOSED


async def test_an_outcome_unknown_while_closing_does_not_reopen(world: World) -> None:
    log = await world.open()
    world.store.hold()
    world.store.fail_next_append(Fault.LOST_UNKNOWN)
    sent = asyncio.ensure_future(log.append(batch()))
    await settled()
    closing = asyncio.ensure_future(log.close())
    world.store.release()
    assert await code_of(sent) is ErrorCode.REQUEST_TIMED_OUT
    await closing
    assert (log.phase, world.lease.epoch) == (LogPhase.CLOSED, 1)


def sent(sequence: int, count: int = 3, *, epoch: int = 0, transactional: bool = False) -> bytes:
    return batch(count, producer=(7, epoch, sequence), transactional=transactional)


def verified(log: PartitionLog) -> Verified:
    return Verified(log.log_end_offset, renews_epoch=False)


async def test_a_batch_sent_again_is_answered_with_its_first_offsets(world: World) -> None:
    log = await world.open()
    for n in range(3):
        await log.append(sent(3 * n))
    assert await log.append(sent(3)) == Appended(3, 5, -1)
    assert (log.log_end_offset, len(world.store.appends)) == (9, 3)


async def test_sequences_count_over_what_is_on_its_way(world: World) -> None:
    log = await world.open()
    world.store.hold()
    appends = [sent(0), sent(3), sent(6), sent(3), sent(12), batch(1)]
    answers = [asyncio.ensure_future(log.append(data)) for data in appends]
    await settled()
    world.store.release()
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert [r.base_offset for r in results if isinstance(r, Appended)] == [0, 3, 6, 3, 9]
    assert isinstance(results[4], KafkaError)
    assert results[4].code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_group_that_failed_leaves_no_sequences(world: World) -> None:
    log = await world.open()
    world.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(sent(0))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.transactions.producers() == {}
    assert await log.append(sent(0)) == Appended(0, 2, -1)


@pytest.mark.parametrize(("fault", "end"), [(Fault.DONE_UNKNOWN, 3), (Fault.LOST_UNKNOWN, 3)])
async def test_a_batch_of_unknown_outcome_can_be_sent_again(world: World, fault: Fault, end: int) -> None:
    log = await world.open()
    world.store.fail_next_append(fault)
    assert await code_of(log.append(sent(0))) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert await log.append(sent(0)) == Appended(0, 2, -1)
    assert log.log_end_offset == end


async def test_notes_of_a_later_version_are_not_led(world: World) -> None:
    log = await world.open()
    await world.store.append(NAME, log.epoch, [stored(0)], (), {"p7": b"\x09"})
    assert await code_of(world.open()) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_who_may_not_lead_any_more_says_nothing_of_sequences(world: World) -> None:
    log = await world.open()
    await log.append(sent(0))
    world.lease.held = False
    for data in (sent(0), sent(9)):
        assert await code_of(log.append(data)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_with_log_append_time_a_repeated_batch_has_its_first_time(world: World) -> None:
    log = await world.open(LogSettings(log_append_time=True))
    first = await log.append(sent(0))
    world.now = NOW + 60
    assert await log.append(sent(0)) == first == Appended(0, 2, int(NOW * 1000))


async def test_an_idempotent_producer_sends_one_batch_at_a_time(world: World) -> None:
    log = await world.open()
    assert await code_of(log.append(sent(0) + sent(3))) is ErrorCode.INVALID_RECORD


async def test_open_transactions_hold_the_last_stable_offset(world: World) -> None:
    log = await world.open()
    await log.append(batch(2))
    assert await code_of(log.append(sent(0, transactional=True))) is ErrorCode.INVALID_TXN_STATE
    await log.append(sent(0, transactional=True), verified(log))
    await log.append(sent(3, transactional=True))
    await log.append(batch(2))
    assert (log.last_stable_offset, log.log_end_offset) == (2, 10)
    await log.delete_records(4)
    assert log.last_stable_offset == 4
    woken: list[int] = []
    log.on_append.append(lambda: woken.append(log.last_stable_offset))
    assert await log.end_transaction(Marker(7, 0, 1, commit=False)) == Appended(10, 10, -1)
    assert woken == [11]
    assert [t[:3] for t in log.transactions.aborted_in(0, 11)] == [(7, 2, 10)]
    assert await code_of(log.end_transaction(Marker(7, 0, 0, commit=False))) is (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )


async def test_a_marker_that_overtakes_a_verified_batch_makes_it_unverified(world: World) -> None:
    log = await world.open()
    await log.append(batch(2))
    seen = verified(log)
    await log.end_transaction(Marker(7, 0, 1, commit=False))
    assert await code_of(log.append(sent(0, transactional=True), seen)) is ErrorCode.INVALID_TXN_STATE


async def test_silent_producers_are_forgotten_but_not_those_that_are_writing(world: World) -> None:
    log = await world.open()
    await log.append(sent(0))
    await log.append(batch(1, producer=(8, 0, 0)))
    now_ms = int(NOW * 1000)
    assert await log.expire_producers(now_ms) == 0
    world.store.hold()
    again = asyncio.ensure_future(log.append(sent(3)))
    await settled()
    assert await log.expire_producers(now_ms + 1) == 1
    world.store.release()
    await again
    assert list(log.transactions.producers()) == [7]
    assert set(await world.store.snapshots(NAME)) == {"p7"}
    world.store.away = True
    assert await code_of(log.expire_producers(now_ms + 1)) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_the_newest_record_is_found_and_a_marker_is_none(world: World) -> None:
    log = await world.open(LogSettings(limits=Limits(segment_bytes=2 * SIZE)))
    assert await log.offset_of_newest() is None
    for i in (0, 5, 3, 5, 1):
        await log.append(batch(4, time=1000 * i))
        await log.end_transaction(Marker(7, 0, 1, commit=True))
    assert await log.offset_of_newest() == TimedOffset(8, 5003)
    assert await log.offset_for_timestamp(5004) is None


async def test_a_batch_that_claims_a_newer_record_than_it_has_is_passed(world: World) -> None:
    from tests.unit.record_log.core.test_batch import patched

    log = await world.open()
    await log.append(patched(batch(3, time=1000), 35, ">q", 9000))
    await log.append(batch(3, time=5000))
    assert await log.offset_for_timestamp(4000) == TimedOffset(3, 5000)
