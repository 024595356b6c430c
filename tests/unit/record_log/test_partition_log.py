"""The partition log: appends, reads, opening, closing and failures of its store."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.batch import StoredBatch, TimedOffset, header_of
from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.sequence_gaps import GAP_TIMEOUT_MS
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.port import Bounds
from sharebroker_server.record_log.record_validation import LogSettings, TimestampBounds
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import (
    NAME,
    NOW,
    SIZE,
    Harness,
    code_of,
    error_of,
    offset_since,
    offsets,
    settled,
    until_open,
)

VALIDATION = "sharebroker_server.record_log.record_validation"


async def test_append_returns_offsets_and_makes_records_readable(harness: Harness) -> None:
    log = await harness.open()
    assert await log.append(batch(3)) == Appended(0, 2, -1)
    assert await log.append(batch(2) + batch(5)) == Appended(3, 9, -1)
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    assert offsets(log.read_hot(0, 10**6)) == [(0, 2), (3, 4), (5, 9)]
    assert offsets(await log.read(4, 1)) == [(3, 4)]
    assert await log.read(10, 10**6) == []


async def test_leader_with_an_expired_lease_cannot_read(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(hot_cache_bytes=1)))
    await log.append(batch() + batch())
    harness.lease.held = False
    assert await code_of(log.read(3, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.lease.held = True
    read = harness.store.read

    async def slowly(partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        harness.lease.held = False
        return await read(partition, offset, max_bytes)

    harness.store.read = slowly  # type: ignore[method-assign]  # the lease ends during the read
    assert await code_of(log.read(0, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_batches_carry_no_lease_epoch_as_leader_epoch(harness: Harness) -> None:
    """Kafka's consumers compare it with the brokers', which is another count."""
    harness.lease.epoch = 7
    log = await harness.open()
    await log.append(batch())
    assert [header_of(b.data).leader_epoch for b in await log.read(0, 1)] == [0]


async def test_log_append_time_is_the_brokers_clock(harness: Harness) -> None:
    log = await harness.open(LogSettings(log_append_time=True))
    assert (await log.append(batch())).log_append_time == int(NOW * 1000)
    (stored,) = await log.read(0, 1)
    assert {r.timestamp for r in DefaultRecordBatch(stored.data)} == {int(NOW * 1000)}


async def test_timestamps_out_of_bounds_are_rejected(harness: Harness) -> None:
    now = round(NOW * 1000)
    times = TimestampBounds(before_max_ms=5000, after_max_ms=1000)
    log = await harness.open(LogSettings(timestamp_bounds=times))
    for time in (now - 5000, now, now + 998, -1):
        await log.append(batch(1 if time < 0 else 3, time=time))
    for time in (now - 5001, now + 999, 0):
        assert await code_of(log.append(batch(3, time=time))) is ErrorCode.INVALID_TIMESTAMP
    assert log.log_end_offset == 10
    log.settings = LogSettings(timestamp_bounds=times, log_append_time=True)
    await log.append(batch(3, time=0))


async def test_rejected_batches_get_no_offsets(harness: Harness) -> None:
    log = await harness.open(LogSettings(max_message_bytes=200))
    assert await code_of(log.append(b"junk")) is ErrorCode.CORRUPT_MESSAGE
    assert await code_of(log.append(batch(10, 100))) is ErrorCode.MESSAGE_TOO_LARGE
    assert await log.append(batch()) == Appended(0, 2, -1)


async def test_callbacks_run_after_the_log_end_moved(harness: Harness) -> None:
    log = await harness.open()
    ends: list[int] = []
    log.on_append.append(lambda: ends.append(log.log_end_offset))
    await log.append(batch(2))
    await log.append(batch(2))
    assert ends == [2, 4]


async def test_failed_write_frees_its_offsets(harness: Harness) -> None:
    log = await harness.open()
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    error = await error_of(log.append(batch()))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.retry_after is not None
    assert await log.append(batch()) == Appended(0, 2, -1)
    assert log.epoch == 1


async def test_fenced_closes_the_log(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch())
    harness.lease.epoch = 2
    harness.store.hold()
    sent = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = asyncio.ensure_future(log.append(batch()))
    await settled()
    harness.store.release()
    for call in (sent, waiting, log.append(batch()), log.read(0, 1), log.delete_records(1)):
        assert await code_of(call) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.log_end_offset == 3


@pytest.mark.parametrize(("fault", "end"), [(Fault.DONE_UNKNOWN, 5), (Fault.LOST_UNKNOWN, 3)])
async def test_unknown_outcome_is_resolved_with_a_new_epoch(harness: Harness, fault: Fault, end: int) -> None:
    log = await harness.open()
    woken: list[int] = []
    await log.append(batch(3))
    log.on_append.append(lambda: woken.append(log.log_end_offset))
    harness.store.fail_next_append(fault)
    assert await code_of(log.append(batch(2))) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert (log.epoch, log.log_end_offset) == (2, end)
    assert woken == [end]
    assert await log.append(batch(1)) == Appended(end, end, -1)
    assert [b.last_offset + 1 for b in await log.read(0, 10**6)][-1] == end + 1


async def test_unexpected_store_failure_is_resolved_like_an_unknown_outcome(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await harness.open()

    async def fails(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(harness.store, "append", fails)
        assert await code_of(log.append(batch(1))) is ErrorCode.REQUEST_TIMED_OUT
    await eventually(lambda: log.phase is LogPhase.OPEN)
    assert (await log.append(batch(1))).base_offset == 0


async def test_recovering_log_serves_reads_and_rejects_appends(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch())
    harness.lease.refusals = [LeasesUnavailable()]
    harness.store.hold()
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    lost = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = asyncio.ensure_future(log.append(batch()))
    await settled()
    harness.store.release()
    assert await code_of(lost) is ErrorCode.REQUEST_TIMED_OUT
    for call in (waiting, log.append(batch()), log.delete_records(-1), log.apply_retention(NOW, None)):
        assert await code_of(call) is ErrorCode.KAFKA_STORAGE_ERROR
    assert offsets(await log.read(0, 1)) == [(0, 2)]
    await until_open(log)
    assert (await log.append(batch())).base_offset == 3


async def test_recovery_waits_for_the_store(harness: Harness) -> None:
    harness.store.fail_next_append(Fault.DONE_UNKNOWN)
    original = harness.lease.reclaim

    async def reclaim_while_away() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise LeasesUnavailable
        harness.store.away = True
        asyncio.get_running_loop().call_later(0.06, setattr, harness.store, "away", False)
        return await original()

    tries: list[int] = []
    harness.lease.reclaim = reclaim_while_away  # type: ignore[method-assign]  # the store comes back at the third try
    log = await harness.open()
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert (len(tries), log.epoch, log.log_end_offset) == (3, 2, 3)


async def test_a_lease_lost_during_recovery_closes_the_log(harness: Harness) -> None:
    log = await harness.open()
    harness.lease.refusals = [LeaseLost(NAME)]
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    assert await code_of(log.append(batch())) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_log_out_of_order_is_reloaded(harness: Harness) -> None:
    log, twin = await harness.open(), await harness.open()
    await twin.append(batch(4))
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    await until_open(log)
    assert (await log.append(batch())).base_offset == 4


async def test_log_without_lease_stays_closed(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(3))
    await harness.store.delete(NAME)
    harness.store.fail_next_append(Fault.FENCED)
    await log.recheck()
    await eventually(lambda: log.phase is LogPhase.CLOSED)
    assert await harness.store.read(NAME, 0, 10**6) == []


async def test_recheck_leaves_the_comparison_of_an_append_in_flight(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await harness.open()
    await log.append(batch())
    compared: list[str] = []

    async def lost_end(_: str) -> int:
        return 0

    async def bounds(partition: str) -> Bounds:
        compared.append(partition)
        return Bounds(0, 0)

    harness.store.hold()
    appended = asyncio.ensure_future(log.append(batch()))
    await settled()
    with monkeypatch.context() as patched:
        patched.setattr(harness.store, "log_end", lost_end)
        patched.setattr(harness.store, "bounds", bounds)
        await log.recheck()
    harness.store.release()
    assert (await appended).base_offset == 3
    assert (compared, log.phase) == ([], LogPhase.OPEN)


async def test_index_rows_reach_the_store_with_the_next_append(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(segment_bytes=2 * SIZE)))
    for _ in range(4):
        await log.append(batch(3))
    assert [row.end_offset for row in await harness.store.segments(NAME)] == [6]
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    await log.append(batch())
    assert [row.end_offset for row in await harness.store.segments(NAME)] == [6, 12]


async def test_cold_reads_use_the_store(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(hot_cache_bytes=SIZE)))
    for _ in range(4):
        await log.append(batch(3))
    assert log.read_hot(0, 10**6) is None
    assert offsets(await log.read(1, 2 * SIZE)) == [(0, 2), (3, 5)]
    harness.store.away = True
    assert offsets(await log.read(3, 1)) == [(3, 5)]  # read before, served from memory
    assert await code_of(log.read(0, 1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert offsets(await log.read(9, 1)) == [(9, 11)]


async def test_cold_reads_stop_at_the_high_watermark(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(hot_cache_bytes=SIZE)))
    for _ in range(3):
        await log.append(batch(3))
    twin = await harness.open()
    await twin.append(batch(1))
    assert offsets(await log.read(0, 10**6)) == [(0, 2), (3, 5), (6, 8)]


async def test_reading_outside_the_log_is_rejected(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch())
    assert await code_of(log.read(4, 1)) is ErrorCode.OFFSET_OUT_OF_RANGE
    await log.delete_records(1)
    assert await code_of(log.read(0, 1)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(await log.read(1, 1)) == [(0, 2)]


async def test_delete_records(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(3))
    assert await log.delete_records(2) == 2
    assert await log.delete_records(1) == 2
    assert await code_of(log.delete_records(4)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await log.delete_records(-1) == 3
    assert log.log_start_offset == log.log_end_offset == 3
    assert await log.append(batch(1)) == Appended(3, 3, -1)


async def test_retention_by_consumption_age_and_size(harness: Harness) -> None:
    limits = MemoryLimits(segment_bytes=SIZE)
    log = await harness.open(LogSettings(retention=Retention(-1, -1, consumed=True), limits=limits))
    for i in range(6):
        await log.append(batch(3, time=1000 * i))
    assert await log.apply_retention(NOW, None) == 0
    assert await log.apply_retention(NOW, 5) == 3
    log.settings = LogSettings(retention=Retention(2_000, -1), limits=limits)
    assert await log.apply_retention(4.5, None) == 9
    log.settings = LogSettings(retention=Retention(-1, SIZE), limits=limits)
    assert await log.apply_retention(NOW, None) == 15
    assert (await harness.store.bounds(NAME)).log_start_offset == 15


async def test_failed_trim_keeps_the_log_start(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch())
    harness.store.away = True
    assert await code_of(log.delete_records(-1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_start_offset == 0
    harness.store.away = False
    harness.lease.epoch = 5
    assert await code_of(log.delete_records(-1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.phase is LogPhase.CLOSED


async def test_a_trim_fenced_by_our_own_recovery_does_not_close_the_log(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch())
    log.phase = LogPhase.RECOVERING
    harness.lease.epoch = 2
    assert await code_of(log._trim(1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.phase is LogPhase.RECOVERING


async def test_close_completes_the_write_in_flight_and_fails_others(harness: Harness) -> None:
    log = await harness.open()
    harness.store.hold()
    sent = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = asyncio.ensure_future(log.append(batch()))
    await settled()
    closing = asyncio.ensure_future(log.close())
    assert await code_of(waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.store.release()
    assert (await sent).base_offset == 0
    await closing
    await log.close()
    assert log.phase is LogPhase.CLOSED


async def test_close_interrupts_a_recovery(harness: Harness) -> None:
    log = await harness.open()
    harness.lease.refusals = [LeasesUnavailable() for _ in range(1000)]
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await log.close()
    assert log.phase is LogPhase.CLOSED


async def test_an_outcome_unknown_while_closing_does_not_reopen(harness: Harness) -> None:
    log = await harness.open()
    harness.store.hold()
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    sent = asyncio.ensure_future(log.append(batch()))
    await settled()
    closing = asyncio.ensure_future(log.close())
    harness.store.release()
    assert await code_of(sent) is ErrorCode.REQUEST_TIMED_OUT
    await closing
    assert (log.phase, harness.lease.epoch) == (LogPhase.CLOSED, 1)


def sent(sequence: int, count: int = 3, *, epoch: int = 0, transactional: bool = False) -> bytes:
    return batch(count, producer=(7, epoch, sequence), transactional=transactional)


def verified(log: PartitionLog) -> Verified:
    return Verified(log.log_end_offset, renews_epoch=False)


async def test_duplicate_batch_returns_its_original_offsets(harness: Harness) -> None:
    log = await harness.open()
    for n in range(3):
        await log.append(sent(3 * n))
    assert await log.append(sent(3)) == Appended(3, 5, -1)
    assert (log.log_end_offset, len(harness.store.appends)) == (9, 3)


async def test_sequences_include_appends_in_flight(harness: Harness) -> None:
    log = await harness.open()
    harness.store.hold()
    appends = [sent(0), sent(3), sent(6), sent(3), sent(12), batch(1)]
    responses = [asyncio.ensure_future(log.append(data)) for data in appends]
    await settled()
    harness.store.release()
    results = await asyncio.gather(*responses, return_exceptions=True)
    assert [r.base_offset for r in results if isinstance(r, Appended)] == [0, 3, 6, 3, 9]
    assert isinstance(results[4], KafkaError)
    assert results[4].code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_batches_behind_a_failed_one_wait_for_it(harness: Harness) -> None:
    log = await harness.open()
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(sent(0))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await code_of(log.append(sent(3))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [(await log.append(sent(3 * n))).base_offset for n in range(3)] == [0, 3, 6]
    assert await code_of(log.append(sent(12))) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.now += GAP_TIMEOUT_MS / 1000
    assert await code_of(log.append(sent(12))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_failed_write_gives_gaps_the_whole_time_again(harness: Harness) -> None:
    log = await harness.open()
    await log.append(sent(0))
    assert await code_of(log.append(sent(6))) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.now += GAP_TIMEOUT_MS / 1000
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(sent(3))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await code_of(log.append(sent(6))) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_full_queue_gives_gaps_the_whole_time_again(harness: Harness) -> None:
    log = await harness.open(LogSettings(max_pending_bytes=0))
    await log.append(sent(0))
    assert await code_of(log.append(sent(6))) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.now += GAP_TIMEOUT_MS / 1000
    harness.store.hold()
    waiting = []
    for _ in range(2):  # one is being written, the other one fills the queue
        waiting.append(asyncio.ensure_future(log.append(batch())))
        await settled()
    assert await code_of(log.append(sent(3))) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.store.release()
    await asyncio.gather(*waiting)
    assert await code_of(log.append(sent(6))) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("fault", "end"), [(Fault.DONE_UNKNOWN, 3), (Fault.LOST_UNKNOWN, 3)])
async def test_a_batch_of_unknown_outcome_can_be_sent_again(harness: Harness, fault: Fault, end: int) -> None:
    log = await harness.open()
    harness.store.fail_next_append(fault)
    assert await code_of(log.append(sent(0))) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert await log.append(sent(0)) == Appended(0, 2, -1)
    assert log.log_end_offset == end


async def test_repetition_is_rejected_after_losing_the_lease(harness: Harness) -> None:
    log = await harness.open()
    await log.append(sent(0))
    harness.lease.held = False
    for data in (sent(0), sent(9)):
        assert await code_of(log.append(data)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_with_log_append_time_a_repeated_batch_has_its_first_time(harness: Harness) -> None:
    log = await harness.open(LogSettings(log_append_time=True))
    first = await log.append(sent(0))
    harness.now = NOW + 60
    assert await log.append(sent(0)) == first == Appended(0, 2, int(NOW * 1000))


async def test_open_transactions_hold_the_last_stable_offset(harness: Harness) -> None:
    log = await harness.open()
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


async def test_a_marker_that_overtakes_a_verified_batch_makes_it_unverified(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(2))
    seen = verified(log)
    await log.end_transaction(Marker(7, 0, 1, commit=False))
    assert await code_of(log.append(sent(0, transactional=True), seen)) is ErrorCode.INVALID_TXN_STATE


async def test_idle_producers_expire_unless_they_are_writing(harness: Harness) -> None:
    log = await harness.open()
    await log.append(sent(0))
    await log.append(batch(1, producer=(8, 0, 0)))
    now_ms = int(NOW * 1000)
    assert await log.expire_producers(now_ms) == 0
    harness.store.hold()
    again = asyncio.ensure_future(log.append(sent(3)))
    await settled()
    assert await log.expire_producers(now_ms + 1) == 1
    harness.store.release()
    await again
    assert list(log.transactions.producers) == [7]
    assert set(await harness.store.snapshots(NAME)) == {"p7"}
    harness.store.away = True
    assert await code_of(log.expire_producers(now_ms + 1)) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("codec", [0, 2, 4])
async def test_offset_for_timestamp(harness: Harness, codec: int) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(segment_bytes=2 * SIZE)))
    for i in range(5):
        await log.append(batch(4, time=1000 * i, codec=codec))
    expected = [(0, 0), (1, 1), (3, 3), (4, 4), (1000, 4), (2002, 10), (2004, 12), (4003, 19), (4004, None)]
    assert [(ts, await offset_since(log, ts)) for ts, _ in expected] == expected
    await log.delete_records(5)
    assert await log.offset_for_timestamp(0) == TimedOffset(5, 1001)
    assert await log.offset_for_timestamp(1003) == TimedOffset(7, 1003)


async def test_offset_for_timestamp_with_log_append_time(harness: Harness) -> None:
    log = await harness.open(LogSettings(log_append_time=True))
    await log.append(batch(4))
    harness.now = NOW + 1
    await log.append(batch(4))
    assert await log.offset_for_timestamp(int(NOW * 1000) + 1) == TimedOffset(4, int(NOW * 1000) + 1000)


async def test_offset_for_timestamp_of_an_undecodable_batch(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.record_log.core.test_batch import patched

    # Such a batch is refused now; an older version kept it.
    monkeypatch.setattr(
        "sharebroker_server.record_log.record_validation.check_records", lambda *_, **__: None
    )
    log = await harness.open()
    garbage = batch(4, codec=1)
    await log.append(patched(garbage, 61, ">I", 0xDEADBEEF))
    assert await offset_since(log, 1002) == 0


async def test_offset_for_timestamp_passes_records_without_one(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(1, time=-1))
    assert await log.offset_for_timestamp(5) is None


async def test_the_newest_record_is_found_and_a_marker_is_none(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(segment_bytes=2 * SIZE)))
    assert await log.offset_of_newest() is None
    for i in (0, 5, 3, 5, 1):
        await log.append(batch(4, time=1000 * i))
        await log.end_transaction(Marker(7, 0, 1, commit=True))
    assert await log.offset_of_newest() == TimedOffset(8, 5003)
    assert await log.offset_for_timestamp(5004) is None


async def test_a_batch_that_claims_a_newer_record_than_it_has_is_passed(harness: Harness) -> None:
    from tests.unit.record_log.core.test_batch import patched

    log = await harness.open()
    await log.append(patched(batch(3, time=1000), 35, ">q", 9000))
    await log.append(batch(3, time=5000))
    assert await log.offset_for_timestamp(4000) == TimedOffset(3, 5000)
