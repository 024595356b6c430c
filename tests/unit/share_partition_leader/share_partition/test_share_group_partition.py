"""The shell of one share-partition: order of writes, failures, wake-ups, locks, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, StateBatch
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.schedules import DeliveryLimits
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    AcquireRequest,
    Configure,
    LostLock,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.runs import stream_holder
from sharebroker_server.share_partition_leader.share_partition.reading import Fetched, NotFetched
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    SCHEDULES_AT_ONCE,
    ShareGroupPartition,
)
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import scheduled, stored
from tests.unit.share_partition_leader.harness import ACCEPT, RELEASE, RENEW, TOPIC, Harness
from tests.unit.share_partition_leader.virtual_time import now, settle

RESOURCE = f"partition:{TOPIC}:0"


_streams = count(1)


class Listener:
    """A consumer that records its notifications."""

    def __init__(self, member: str = "m1") -> None:
        self.holder = stream_holder(next(_streams), member)
        self.session = ""
        self.woken = 0
        self.lost: list[tuple[int, int]] = []
        self.retirements = 0

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        self.woken += 1

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        self.lost.append((lost.first, lost.last))

    def retired(self, share_partition: ShareGroupPartition) -> None:
        self.retirements += 1


@pytest.fixture
def me() -> Listener:
    return Listener()


def acquire(
    share_partition: ShareGroupPartition, listener: Listener, most: int = 500
) -> list[tuple[int, int]] | NotFetched:
    found = share_partition.acquire(AcquireRequest(listener.holder, most, 500))
    return found if isinstance(found, NotFetched) else spans(found)


def spans(found: Fetched | NotFetched) -> list[tuple[int, int]]:
    assert isinstance(found, Fetched)
    return [(run.first, run.last) for run in found.acquired]


class Outcome:
    """Records the calls of `done`."""

    def __init__(self) -> None:
        self.codes: list[ErrorCode] = []

    def __call__(self, error: KafkaError | None) -> None:
        self.codes.append(ErrorCode.NONE if error is None else error.code)


def acknowledge(
    share_partition: ShareGroupPartition, listener: Listener, first: int, last: int, kind: int = ACCEPT
) -> Outcome:
    outcome = Outcome()
    share_partition.handle(Acknowledge(listener.holder, [AckBatch(first, last, (kind,))], outcome))
    return outcome


async def held(harness: Harness, listener: Listener, records: int = 10) -> ShareGroupPartition:
    """A share-partition in which a consumer holds records."""
    await harness.publish(records)
    share_partition = await harness.share_partition()
    share_partition.join(listener)
    assert acquire(share_partition, listener) == [(0, records - 1)]
    return share_partition


# --- writes


async def test_changes_of_one_loop_iteration_share_a_write(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    outcomes = [acknowledge(share_partition, me, offset, offset) for offset in range(4)]
    await eventually(lambda: all(outcome.codes for outcome in outcomes))
    (write,) = harness.persister.writes
    assert write.start_offset == 4


async def test_changes_during_a_write_are_coalesced_into_the_next(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    first = acknowledge(share_partition, me, 5, 5)
    await settle()
    later = [acknowledge(share_partition, me, offset, offset) for offset in (6, 0, 1)]
    await settle()
    assert len(harness.persister.writes) == 1
    assert not first.codes
    harness.persister.open.set()
    await eventually(lambda: all(outcome.codes for outcome in later))
    assert [(w.start_offset, [b[:2] for b in w.batches]) for w in harness.persister.writes] == [
        (0, [(5, 5)]),
        (2, [(6, 6)]),
    ]
    assert first.codes == later[0].codes == [ErrorCode.NONE]


async def test_an_acknowledgement_without_a_write_replies_at_once(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    assert acknowledge(share_partition, me, 0, 9, RENEW).codes == [ErrorCode.NONE]
    assert not harness.persister.writes


async def test_a_rejected_acknowledgement_raises_and_does_not_reply(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    outcome = Outcome()
    with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
        share_partition.handle(Acknowledge("another", [AckBatch(0, 0, (ACCEPT,))], outcome))
    await settle()
    assert (outcome.codes, harness.persister.writes) == ([], [])


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.REQUEST_TIMED_OUT),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("applied", [False, True])
async def test_failed_write_keeps_records_held_and_acknowledgeable(
    harness: Harness, me: Listener, failure: Exception, expected: ErrorCode, applied: bool
) -> None:
    share_partition = await held(harness, me)
    (harness.persister.after if applied else harness.persister.before).append(failure)
    with capture_logs():
        outcome = acknowledge(share_partition, me, 0, 4)
        await eventually(lambda: outcome.codes)
    assert outcome.codes == [expected]
    assert not share_partition.retired
    assert acquire(share_partition, Listener()) is NotFetched.NO_RECORDS
    again = acknowledge(share_partition, me, 0, 9)
    await eventually(lambda: again.codes)
    assert again.codes == [ErrorCode.NONE]
    assert await harness.start_offset() == 10


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_fenced_write_retires_the_share_partition(
    harness: Harness, me: Listener, refusal: ErrorCode, expected: ErrorCode
) -> None:
    share_partition = await held(harness, me)
    harness.persister.before.append(KafkaError(refusal))
    outcome = acknowledge(share_partition, me, 0, 4)
    await eventually(lambda: outcome.codes)
    assert outcome.codes == [expected]
    assert (share_partition.retired, me.retirements, me.lost) == (True, 1, [(0, 9)])
    assert await harness.share_partition() is not share_partition


async def test_changes_after_a_fenced_write_are_rejected(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    harness.persister.before.append(KafkaError(ErrorCode.FENCED_STATE_EPOCH))
    outcomes = [acknowledge(share_partition, me, 0, 0)]
    await settle()
    outcomes.append(acknowledge(share_partition, me, 1, 1))
    share_partition.release_member("m1")
    harness.persister.open.set()
    await eventually(lambda: all(outcome.codes for outcome in outcomes))
    assert [outcome.codes for outcome in outcomes] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 2
    await settle()
    assert len(harness.persister.writes) == 1


# --- scheduled records


async def test_many_scheduled_records_are_read_in_several_steps(harness: Harness, me: Listener) -> None:
    led = await harness.leadership.led(TOPIC, 0)
    led.own_log.settings = LogSettings(delivery=DeliveryLimits(86_400_000, -1))
    times = [led.own_log.now_ms + 60_000 + number for number in range(2 * SCHEDULES_AT_ONCE + 10)]
    await led.own_log.append(scheduled([*times, None], time=-1))
    share_partition = await harness.share_partition()
    for waiting in (SCHEDULES_AT_ONCE, 2 * SCHEDULES_AT_ONCE):
        assert acquire(share_partition, me) is NotFetched.NO_RECORDS
        share_partition.add_listener(me)
        assert (me.woken, share_partition.core.in_flight.waiting) == (0, waiting)
        await settle()
        assert me.woken == 1
        me.woken = 0
    assert acquire(share_partition, me) == [(len(times), len(times))]
    assert share_partition.core.in_flight.waiting == len(times)


# --- notifications


async def test_a_listener_is_notified_once_of_new_records(harness: Harness, me: Listener) -> None:
    share_partition = await harness.share_partition()
    assert acquire(share_partition, me) is NotFetched.NO_RECORDS
    share_partition.add_listener(me)
    await harness.publish(1)
    await harness.publish(1)
    assert me.woken == 1


async def test_a_release_notifies_listeners(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    other = Listener("m2")
    share_partition.add_listener(other)
    acknowledge(share_partition, me, 3, 3, RELEASE)
    await eventually(lambda: other.woken)
    assert acquire(share_partition, other) == [(3, 3)]


async def test_room_in_a_full_window_notifies_listeners(harness: Harness, me: Listener) -> None:
    await harness.configure("share.partition.max.record.locks", "100")
    share_partition = await held(harness, me, 100)
    await harness.publish(10)
    other = Listener("m2")
    assert acquire(share_partition, other) is NotFetched.NO_RECORDS
    share_partition.add_listener(other)
    acknowledge(share_partition, me, 0, 9)
    await eventually(lambda: other.woken)
    assert acquire(share_partition, other) == [(100, 109)]


async def test_changed_settings_apply_at_once_and_notify_listeners(harness: Harness, me: Listener) -> None:
    await harness.configure("share.partition.max.record.locks", "100")
    share_partition = await held(harness, me, 100)
    await harness.publish(10)
    share_partition.add_listener(me)
    await harness.configure("share.partition.max.record.locks", "200")
    assert me.woken == 1
    assert acquire(share_partition, me) == [(100, 109)]


async def test_a_removed_listener_is_not_notified(harness: Harness, me: Listener) -> None:
    share_partition = await harness.share_partition()
    share_partition.add_listener(me)
    share_partition.remove_listener(me)
    share_partition.remove_listener(me)
    share_partition.wake()
    assert me.woken == 0


# --- locks


async def test_lock_timeouts_are_reported_and_written(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    other = Listener("m2")
    share_partition.add_listener(other)
    start = now()
    await eventually(lambda: me.lost, timeout=60)
    assert 30 <= now() - start < 30.1
    assert me.lost == [(0, 9)]
    assert other.woken == 1
    await eventually(lambda: harness.persister.written)
    assert harness.persister.writes[0].batches == (StateBatch(0, 9, 0, 1),)


async def test_an_earlier_deadline_moves_the_timer(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    await harness.publish(5)
    share_partition.handle(Configure(SharePartitionSettings(lock_duration=1.0)))
    quick = Listener("quick")
    share_partition.join(quick)
    start = now()
    assert acquire(share_partition, quick) == [(10, 14)]
    await eventually(lambda: quick.lost, timeout=60)
    assert now() - start < 1.1
    assert not me.lost
    await eventually(lambda: me.lost, timeout=60)
    assert now() - start < 30.1


async def test_failed_write_of_a_delivery_still_counts_the_delivery(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    away = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.persister.before.extend((away, away))
    await eventually(lambda: me.lost, timeout=60)
    share_partition.leave(me)
    await settle()
    assert not share_partition.retired  # the delivery count would be lost with it
    await eventually(lambda: share_partition.retired, timeout=60)
    assert len(harness.persister.writes) == 3
    again = await harness.share_partition()
    assert again is not share_partition
    found = again.acquire(AcquireRequest(me.holder, 500, 500))
    assert isinstance(found, Fetched)
    assert [run.delivery_count for run in found.acquired] == [2]


async def test_a_late_acknowledgement_waits_for_the_start_offset(harness: Harness, me: Listener) -> None:
    """Without a token, like Kafka's clients: the exhausted record is archived in memory alone."""
    await harness.configure("share.delivery.count.limit", "2")
    share_partition = await held(harness, me)
    released = acknowledge(share_partition, me, 0, 9, RELEASE)
    await eventually(lambda: released.codes)
    assert acquire(share_partition, me) == [(0, 9)]
    harness.persister.open.clear()
    await eventually(lambda: me.lost, timeout=60)
    assert share_partition.core.start_offset == 10
    outcome = acknowledge(share_partition, me, 0, 9)
    await settle()
    assert not outcome.codes
    harness.persister.open.set()
    await eventually(lambda: outcome.codes == [ErrorCode.NONE])
    assert harness.persister.writes[-1].start_offset == 10
    writes = len(harness.persister.writes)
    assert acknowledge(share_partition, me, 0, 9).codes == [ErrorCode.NONE], "now it is durable"
    assert len(harness.persister.writes) == writes


async def test_retries_are_flushed_at_a_hand_over_and_end_with_it(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    await eventually(lambda: me.lost, timeout=60)
    await settle()
    assert len(harness.persister.writes) == 1
    await share_partition.stop()
    assert len(harness.persister.writes) == 2
    await asyncio.sleep(10)
    assert len(harness.persister.writes) == 2


async def test_renewed_lock_does_not_time_out(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    start = now()
    await asyncio.sleep(20)
    acknowledge(share_partition, me, 0, 4, RENEW)
    await eventually(lambda: len(me.lost) == 1, timeout=60)
    assert me.lost == [(5, 9)]
    await eventually(lambda: len(me.lost) == 2, timeout=60)
    assert 50 <= now() - start < 50.1


async def test_lock_due_during_a_failing_write_times_out_after_it(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    outcome = acknowledge(share_partition, me, 0, 9)
    await asyncio.sleep(40)
    assert not me.lost
    harness.persister.open.set()
    await eventually(lambda: me.lost == [(0, 9)])
    assert outcome.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_lock_timeout_of_a_single_call_notifies_only_availability(
    harness: Harness, me: Listener
) -> None:
    await harness.publish(3)
    await harness.acquire()
    share_partition = await harness.share_partition()
    share_partition.join(me)
    share_partition.add_listener(me)
    await eventually(lambda: me.woken, timeout=60)
    assert not me.lost
    assert acquire(share_partition, me) == [(0, 2)]


# --- reading


async def test_uncached_records_are_read_once_for_all_callers(harness: Harness, me: Listener) -> None:
    await harness.publish(3)
    await harness.evict_hot_cache()
    share_partition, other = await harness.share_partition(), Listener("m2")
    assert acquire(share_partition, me) is NotFetched.NOT_CACHED
    request = AcquireRequest(me.holder, 500, 500)
    harness.records.open.clear()
    reading = asyncio.create_task(share_partition.acquire_uncached(request))
    await settle()
    assert acquire(share_partition, other) is NotFetched.NO_RECORDS
    assert await share_partition.acquire_uncached(AcquireRequest(other.holder, 500, 500)) is (
        NotFetched.NO_RECORDS
    )
    share_partition.add_listener(other)
    harness.records.open.set()
    assert spans(await reading) == [(0, 2)]
    assert other.woken == 1


async def test_a_failed_or_cancelled_read_notifies_listeners(harness: Harness, me: Listener) -> None:
    await harness.publish(3)
    await harness.evict_hot_cache()
    share_partition = await harness.share_partition()
    request = AcquireRequest("other", 500, 500)
    harness.records.open.clear()
    reading = asyncio.create_task(share_partition.acquire_uncached(request))
    await settle()
    share_partition.add_listener(me)
    reading.cancel()
    await asyncio.wait([reading])
    assert me.woken == 1
    harness.records.open.set()
    harness.records.away = True
    share_partition.add_listener(me)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        await share_partition.acquire_uncached(request)
    assert me.woken == 2


async def test_gap_in_the_log_is_skipped(harness: Harness, me: Listener) -> None:
    """The released records are deleted from the log, and another member holds all that one read returns."""
    share_partition, other = await held(harness, me, 5), Listener("m2")
    for offset in (5, 6):
        await harness.publish(1, size=600_000)
        assert acquire(share_partition, other) == [(offset, offset)]
    acknowledge(share_partition, me, 0, 4, RELEASE)
    acknowledge(share_partition, other, 6, 6, RELEASE)
    await eventually(lambda: harness.persister.written)
    cache = (await harness.own_log())._state.hot_cache
    cache.drop_before(5)
    cache.start = 0
    assert acquire(share_partition, me) == [(6, 6)]
    assert share_partition.core.start_offset == 5


async def test_gap_in_the_store_is_skipped(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me, 5)
    await harness.publish(5)
    assert acquire(share_partition, me) == [(5, 9)]
    acknowledge(share_partition, me, 0, 4, RELEASE)
    await eventually(lambda: harness.persister.written)
    del harness.records._partitions[RESOURCE].batches[0]
    await harness.evict_hot_cache()
    assert await share_partition.acquire_uncached(AcquireRequest("x", 500, 500)) is NotFetched.NO_RECORDS
    assert share_partition.core.start_offset == 5


async def test_records_missing_from_the_store_are_an_error(harness: Harness, me: Listener) -> None:
    await harness.publish(5)
    await harness.evict_hot_cache()
    share_partition = await harness.share_partition()
    harness.records._partitions[RESOURCE].batches.clear()
    with pytest.raises(KafkaError, match="no records from 0 on; it ends at"):
        await share_partition.acquire_uncached(AcquireRequest(me.holder, 500, 500))


async def test_without_room_nothing_is_acquired(harness: Harness, me: Listener) -> None:
    await harness.publish(5)
    assert acquire(await harness.share_partition(), me, 0) is NotFetched.NO_RECORDS


async def test_only_batches_with_an_acquired_record_are_sent(harness: Harness, me: Listener) -> None:
    await harness.publish(2)
    for _ in range(4):
        await harness.publish(2)
    share_partition = await harness.share_partition()
    assert acquire(share_partition, me) == [(0, 9)]
    for first, last in ((0, 0), (5, 5), (9, 9)):
        acknowledge(share_partition, me, first, last, RELEASE)
    await eventually(lambda: harness.persister.written)
    found = share_partition.acquire(AcquireRequest(me.holder, 500, 500))
    assert spans(found) == [(0, 0), (5, 5), (9, 9)]
    assert isinstance(found, Fetched)
    assert len(found.records) == 3 * len(stored(0, 2).data)
    assert found.offsets == 3


async def test_full_window_starts_at_the_moved_log_start(harness: Harness, me: Listener) -> None:
    await harness.configure("share.partition.max.record.locks", "100")
    share_partition = await held(harness, me, 100)
    await harness.publish(10)
    share_partition.add_listener(me)
    await (await harness.own_log()).delete_records(100)
    assert acquire(share_partition, me) == [(100, 109)]


# --- leaving


async def test_leaving_releases_held_records(harness: Harness, me: Listener) -> None:
    share_partition, other = await held(harness, me), Listener("m2")
    share_partition.join(other)
    share_partition.add_listener(other)
    share_partition.leave(me)
    await eventually(lambda: other.woken)
    assert acquire(share_partition, other) == [(0, 9)]
    assert not share_partition.retired


async def test_release_of_a_member_covers_its_streams_and_calls(harness: Harness) -> None:
    first, second, foreign = Listener("m1"), Listener("m1"), Listener("m1@2")
    share_partition = await held(harness, first, 3)
    for listener in (second, foreign):
        await harness.publish(2)
        acquire(share_partition, listener)
    await harness.publish(2)
    await harness.acquire(member="m1")
    await harness.publish(2)
    await harness.acquire(member="@m1")
    harness.leadership.release_member("g", "m1", set())
    await eventually(lambda: harness.persister.written)
    rest = {(lost.first, lost.last) for lost in share_partition.core.in_flight.held()}
    assert rest == {(5, 6), (9, 10)}


async def test_share_partition_is_unloaded_after_the_last_member_left(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    share_partition.leave(me)
    await settle()
    assert not share_partition.retired
    harness.persister.open.set()
    await eventually(lambda: share_partition.retired)
    assert me.retirements == 0
    assert harness.persister.written == 1
    await harness.initialize(state_epoch=2, start=8)
    assert (await harness.share_partition()).core.start_offset == 8


@pytest.mark.parametrize("reason", ["a stream", "a fetch that waits", "held records", "a read"])
async def test_share_partition_in_use_is_not_unloaded(harness: Harness, me: Listener, reason: str) -> None:
    await harness.publish(3)
    share_partition, other = await harness.share_partition(), Listener("m2")
    share_partition.join(me)
    if reason == "a stream":
        share_partition.join(other)
    elif reason == "a fetch that waits":
        share_partition.add_listener(other)
    elif reason == "held records":
        acquire(share_partition, other)
    else:
        await harness.evict_hot_cache()
        harness.records.open.clear()
        reading = asyncio.create_task(share_partition.acquire_uncached(AcquireRequest("x", 1, 1)))
        await settle()
    share_partition.leave(me)
    harness.leadership.drop_unused()
    assert not share_partition.retired
    if reason == "a read":
        harness.records.open.set()
        assert isinstance(await reading, Fetched)


async def test_records_held_by_calls_prevent_the_unload(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    await harness.publish(1)
    await harness.acquire(member="caller")
    share_partition.leave(me)
    await settle()
    assert not share_partition.retired
    await harness.acquire(member="caller")
    await harness.acknowledge((0, 10, ACCEPT), member="caller")
    await settle()
    assert not share_partition.retired, "calls without a session do not unload it at once"
    harness.leadership.drop_unused()
    assert share_partition.retired


# --- the end


async def test_retired_share_partition_rejects_every_request(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    await harness.evict_hot_cache()
    share_partition.retire()
    share_partition.retire()
    assert me.retirements == 1
    for refused in (
        lambda: share_partition.acquire(AcquireRequest(me.holder, 1, 1)),
        lambda: acknowledge(share_partition, me, 0, 0),
    ):
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            refused()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await share_partition.acquire_uncached(AcquireRequest(me.holder, 1, 1))
    await asyncio.sleep(100)
    assert (me.lost, harness.persister.writes) == ([(0, 9)], [])


async def test_read_completed_after_the_stop_acquires_nothing(harness: Harness, me: Listener) -> None:
    await harness.publish(1)
    await harness.evict_hot_cache()
    share_partition = await harness.share_partition()
    harness.records.open.clear()
    reading = asyncio.create_task(share_partition.acquire_uncached(AcquireRequest(me.holder, 1, 1)))
    await settle()
    share_partition.retire()
    harness.records.open.set()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await reading
    assert not share_partition.core.in_flight.held()


async def test_write_in_flight_at_the_stop_replies_with_its_outcome(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    under_way = acknowledge(share_partition, me, 0, 0)
    await settle()
    waiting = acknowledge(share_partition, me, 1, 1)
    share_partition.release_member("m1")
    share_partition.retire()
    assert (under_way.codes, waiting.codes) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])
    harness.persister.open.set()
    await eventually(lambda: under_way.codes == [ErrorCode.NONE])
    assert len(harness.persister.writes) == 1


async def test_stop_waits_until_accepted_changes_are_durable(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    outcomes = [acknowledge(share_partition, me, 0, 0)]
    await settle()
    outcomes.append(acknowledge(share_partition, me, 1, 1))
    stopping = asyncio.create_task(share_partition.stop())
    await settle()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        acknowledge(share_partition, me, 2, 2)
    assert not share_partition.retired
    harness.persister.open.set()
    await stopping
    assert share_partition.retired
    assert [outcome.codes for outcome in outcomes] == [[ErrorCode.NONE]] * 2
    assert await harness.start_offset() == 2


async def test_stop_times_out_without_a_reply_of_the_coordinator(harness: Harness, me: Listener) -> None:
    share_partition = await held(harness, me)
    harness.persister.open.clear()
    under_way = acknowledge(share_partition, me, 0, 0)
    await settle()
    waiting = acknowledge(share_partition, me, 1, 1)
    start = now()
    await share_partition.stop()
    assert 5 <= now() - start < 5.1
    assert (under_way.codes, waiting.codes) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])
    harness.persister.open.set()
    await eventually(lambda: under_way.codes == [ErrorCode.NONE])


async def test_idle_share_partition_stops_at_once(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    await share_partition.stop()
    assert share_partition.retired


# Delays and retention

EXCEEDS = "delay exceeds the retention of the topic"


async def _short_retention(harness: Harness, retention_ms: int) -> None:
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    log.settings = type(log.settings)(retention=Retention(retention_ms=retention_ms))


def _numbers(logs: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    return [
        (entry["setting"], entry["delay_ms"], entry["retention_ms"])
        for entry in logs
        if entry["event"] == EXCEEDS
    ]


async def test_delay_beyond_the_retention_is_logged_once(harness: Harness) -> None:
    await _short_retention(harness, 60_000)
    await harness.publish(4)
    await harness.acquire()
    with capture_logs() as logs:
        for offset, delay_ms in enumerate((60_000, 60_001, 70_000)):
            response = await harness.acknowledge((offset, offset, RELEASE), delay_ms=delay_ms)
            assert not response.error_code
        await harness.acknowledge((3, 3, RELEASE))
    assert _numbers(logs) == [("delay_ms", 60_001, 60_000)]


@pytest.mark.parametrize("retention_ms", [-1, 30_000])
async def test_delay_within_the_retention_is_not_logged(harness: Harness, retention_ms: int) -> None:
    await _short_retention(harness, retention_ms)
    await harness.publish(1)
    await harness.acquire()
    with capture_logs() as logs:
        await harness.acknowledge((0, 0, RELEASE), delay_ms=30_000)
    assert _numbers(logs) == []


async def test_backoff_beyond_the_retention_is_logged(harness: Harness) -> None:
    backoff = "share.retry.backoff.max.ms"
    await _short_retention(harness, 60_000)
    await harness.configure("share.retry.backoff.ms", "1000")
    with capture_logs() as logs:
        share_partition = await harness.share_partition()
    assert _numbers(logs) == [(backoff, 100_000, 60_000)]
    share_partition.retire()
    await harness.configure(backoff, "60000")
    with capture_logs() as logs:
        await harness.share_partition()
        assert _numbers(logs) == []
        await harness.configure(backoff, "61000")
        await harness.configure(backoff, "62000")
    assert _numbers(logs) == [(backoff, 61_000, 60_000)]
