"""The shell of one share-partition: order of writes, failures, wake-ups, locks, its end."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.values import (
    AcquireRequest,
    LostLock,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched, NotFetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.testkit.waiting import eventually
from tests.unit.record_log.batches import stored
from tests.unit.share_partition_leader.virtual_time import now, settle
from tests.unit.share_partition_leader.world import (
    ACCEPT,
    RELEASE,
    RENEW,
    TOPIC,
    World,
)

RESOURCE = f"partition:{TOPIC}:0"


class Listener:
    """A consumer that writes down what it is told."""

    def __init__(self, member: str = "m1") -> None:
        self.holder = lock_holders.of_new_stream(member)
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
    share_partition: ShareGroupPartition, who: Listener, most: int = 500
) -> list[tuple[int, int]] | NotFetched:
    found = share_partition.acquire(AcquireRequest(who.holder, most, 500))
    return found if isinstance(found, NotFetched) else spans(found)


def spans(found: Fetched | NotFetched) -> list[tuple[int, int]]:
    assert isinstance(found, Fetched)
    return [(run.first, run.last) for run in found.acquired]


class Outcome:
    """What `done` was told."""

    def __init__(self) -> None:
        self.told: list[ErrorCode] = []

    def __call__(self, error: KafkaError | None) -> None:
        self.told.append(ErrorCode.NONE if error is None else error.code)


def say(
    share_partition: ShareGroupPartition, who: Listener, first: int, last: int, kind: int = ACCEPT
) -> Outcome:
    outcome = Outcome()
    share_partition.acknowledge(who.holder, [AckBatch(first, last, (kind,))], outcome)
    return outcome


async def held(world: World, who: Listener, records: int = 10) -> ShareGroupPartition:
    """A share-partition in which a consumer holds records."""
    await world.publish(records)
    share_partition = await world.share_partition()
    share_partition.join(who)
    assert acquire(share_partition, who) == [(0, records - 1)]
    return share_partition


# --- writes


async def test_changes_of_one_turn_go_out_in_one_write(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    outcomes = [say(share_partition, me, offset, offset) for offset in range(4)]
    await eventually(lambda: all(outcome.told for outcome in outcomes))
    (write,) = world.persister.writes
    assert write.start_offset == 4


async def test_changes_that_come_during_a_write_go_out_together_after_it(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    first = say(share_partition, me, 5, 5)
    await settle()
    later = [say(share_partition, me, offset, offset) for offset in (6, 0, 1)]
    await settle()
    assert len(world.persister.writes) == 1
    assert not first.told
    world.persister.open.set()
    await eventually(lambda: all(outcome.told for outcome in later))
    assert [(w.start_offset, [b[:2] for b in w.batches]) for w in world.persister.writes] == [
        (0, [(5, 5)]),
        (2, [(6, 6)]),
    ]
    assert first.told == later[0].told == [ErrorCode.NONE]


async def test_what_needs_no_write_is_answered_at_once(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    assert say(share_partition, me, 0, 9, RENEW).told == [ErrorCode.NONE]
    assert not world.persister.writes


async def test_what_is_refused_is_raised_and_not_told(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    outcome = Outcome()
    with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
        share_partition.acknowledge("another", [AckBatch(0, 0, (ACCEPT,))], outcome)
    await settle()
    assert (outcome.told, world.persister.writes) == ([], [])


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.REQUEST_TIMED_OUT),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("applied", [False, True])
async def test_after_a_failed_write_the_records_are_still_held_and_life_goes_on(
    world: World, me: Listener, failure: Exception, told: ErrorCode, applied: bool
) -> None:
    share_partition = await held(world, me)
    (world.persister.after if applied else world.persister.before).append(failure)
    with capture_logs():
        outcome = say(share_partition, me, 0, 4)
        await eventually(lambda: outcome.told)
    assert outcome.told == [told]
    assert not share_partition.retired
    assert acquire(share_partition, Listener()) is NotFetched.NO_RECORDS
    again = say(share_partition, me, 0, 9)
    await eventually(lambda: again.told)
    assert again.told == [ErrorCode.NONE]
    assert await world.start_offset() == 10


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_when_somebody_else_has_the_state_it_retires(
    world: World, me: Listener, refusal: ErrorCode, told: ErrorCode
) -> None:
    share_partition = await held(world, me)
    world.persister.before.append(KafkaError(refusal))
    outcome = say(share_partition, me, 0, 4)
    await eventually(lambda: outcome.told)
    assert outcome.told == [told]
    assert (share_partition.retired, me.retirements, me.lost) == (True, 1, [(0, 9)])
    assert await world.share_partition() is not share_partition


async def test_what_waits_behind_a_write_that_shows_a_new_owner_is_refused(
    world: World, me: Listener
) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    world.persister.before.append(KafkaError(ErrorCode.FENCED_STATE_EPOCH))
    outcomes = [say(share_partition, me, 0, 0)]
    await settle()
    outcomes.append(say(share_partition, me, 1, 1))
    share_partition.release_member("m1")
    world.persister.open.set()
    await eventually(lambda: all(outcome.told for outcome in outcomes))
    assert [outcome.told for outcome in outcomes] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 2
    await settle()
    assert len(world.persister.writes) == 1


# --- waiting and waking


async def test_who_waits_is_woken_once_by_new_records(world: World, me: Listener) -> None:
    share_partition = await world.share_partition()
    assert acquire(share_partition, me) is NotFetched.NO_RECORDS
    share_partition.add_listener(me)
    await world.publish(1)
    await world.publish(1)
    assert me.woken == 1


async def test_a_release_wakes_who_waits(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    other = Listener("m2")
    share_partition.add_listener(other)
    say(share_partition, me, 3, 3, RELEASE)
    await eventually(lambda: other.woken)
    assert acquire(share_partition, other) == [(3, 3)]


async def test_room_in_a_full_window_wakes_who_waits(world: World, me: Listener) -> None:
    await world.configure("share.partition.max.record.locks", "100")
    share_partition = await held(world, me, 100)
    await world.publish(10)
    other = Listener("m2")
    assert acquire(share_partition, other) is NotFetched.NO_RECORDS
    share_partition.add_listener(other)
    say(share_partition, me, 0, 9)
    await eventually(lambda: other.woken)
    assert acquire(share_partition, other) == [(100, 109)]


async def test_changed_settings_count_at_once_and_wake_who_waits(world: World, me: Listener) -> None:
    await world.configure("share.partition.max.record.locks", "100")
    share_partition = await held(world, me, 100)
    await world.publish(10)
    share_partition.add_listener(me)
    await world.configure("share.partition.max.record.locks", "200")
    assert me.woken == 1
    assert acquire(share_partition, me) == [(100, 109)]


async def test_who_takes_its_wait_back_is_not_woken(world: World, me: Listener) -> None:
    share_partition = await world.share_partition()
    share_partition.add_listener(me)
    share_partition.remove_listener(me)
    share_partition.remove_listener(me)
    share_partition.wake()
    assert me.woken == 0


# --- locks


async def test_locks_run_out_in_time_and_are_told_and_written(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    other = Listener("m2")
    share_partition.add_listener(other)
    start = now()
    await eventually(lambda: me.lost, timeout=60)
    assert 30 <= now() - start < 30.1
    assert me.lost == [(0, 9)]
    assert other.woken == 1
    await eventually(lambda: world.persister.written)
    assert world.persister.writes[0].batches == ((0, 9, 0, 1),)


async def test_an_earlier_deadline_moves_the_timer(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    await world.publish(5)
    share_partition.configure(SharePartitionSettings(lock_duration=1.0))
    quick = Listener("quick")
    share_partition.join(quick)
    start = now()
    assert acquire(share_partition, quick) == [(10, 14)]
    await eventually(lambda: quick.lost, timeout=60)
    assert now() - start < 1.1
    assert not me.lost
    await eventually(lambda: me.lost, timeout=60)
    assert now() - start < 30.1


async def test_a_delivery_that_could_not_be_written_is_counted_all_the_same(
    world: World, me: Listener
) -> None:
    share_partition = await held(world, me)
    away = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.persister.before.extend((away, away))
    await eventually(lambda: me.lost, timeout=60)
    share_partition.leave(me)
    await settle()
    assert not share_partition.retired  # it would be forgotten with it
    await eventually(lambda: share_partition.retired, timeout=60)
    assert len(world.persister.writes) == 3
    again = await world.share_partition()
    assert again is not share_partition
    found = again.acquire(AcquireRequest(me.holder, 500, 500))
    assert isinstance(found, Fetched)
    assert [run.delivery_count for run in found.acquired] == [2]


async def test_who_accepts_too_late_hears_so_only_when_nobody_can_have_the_record_again(
    world: World, me: Listener
) -> None:
    """Without a token, as Kafka's clients: its last delivery was over, and it is archived in memory alone."""
    await world.configure("share.delivery.count.limit", "2")
    share_partition = await held(world, me)
    released = say(share_partition, me, 0, 9, RELEASE)
    await eventually(lambda: released.told)
    assert acquire(share_partition, me) == [(0, 9)]
    world.persister.open.clear()
    await eventually(lambda: me.lost, timeout=60)
    assert share_partition.core.start_offset == 10
    outcome = say(share_partition, me, 0, 9)
    await settle()
    assert not outcome.told
    world.persister.open.set()
    await eventually(lambda: outcome.told == [ErrorCode.NONE])
    assert world.persister.writes[-1].start_offset == 10
    writes = len(world.persister.writes)
    assert say(share_partition, me, 0, 9).told == [ErrorCode.NONE], "now it is durable"
    assert len(world.persister.writes) == writes


async def test_what_is_owed_is_written_at_a_hand_over_and_not_after_the_end(
    world: World, me: Listener
) -> None:
    share_partition = await held(world, me)
    world.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    await eventually(lambda: me.lost, timeout=60)
    await settle()
    assert len(world.persister.writes) == 1
    await share_partition.stop()
    assert len(world.persister.writes) == 2
    await asyncio.sleep(10)
    assert len(world.persister.writes) == 2


async def test_a_renewed_lock_lives_on(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    start = now()
    await asyncio.sleep(20)
    say(share_partition, me, 0, 4, RENEW)
    await eventually(lambda: len(me.lost) == 1, timeout=60)
    assert me.lost == [(5, 9)]
    await eventually(lambda: len(me.lost) == 2, timeout=60)
    assert 50 <= now() - start < 50.1


async def test_a_lock_that_runs_out_during_a_failing_write_ends_after_it(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    world.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    outcome = say(share_partition, me, 0, 9)
    await asyncio.sleep(40)
    assert not me.lost
    world.persister.open.set()
    await eventually(lambda: me.lost == [(0, 9)])
    assert outcome.told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_the_lock_of_a_fetch_runs_out_without_anybody_to_tell(world: World, me: Listener) -> None:
    await world.publish(3)
    await world.acquire()
    share_partition = await world.share_partition()
    share_partition.join(me)
    share_partition.add_listener(me)
    await eventually(lambda: me.woken, timeout=60)
    assert not me.lost
    assert acquire(share_partition, me) == [(0, 2)]


# --- reading


async def test_records_that_left_memory_are_read_once_for_all(world: World, me: Listener) -> None:
    await world.publish(3)
    await world.chill()
    share_partition, other = await world.share_partition(), Listener("m2")
    assert acquire(share_partition, me) is NotFetched.NOT_CACHED
    request = AcquireRequest(me.holder, 500, 500)
    world.records.open.clear()
    reading = asyncio.create_task(share_partition.acquire_uncached(request))
    await settle()
    assert acquire(share_partition, other) is NotFetched.NO_RECORDS
    assert (
        await share_partition.acquire_uncached(request._replace(member=other.holder)) is NotFetched.NO_RECORDS
    )
    share_partition.add_listener(other)
    world.records.open.set()
    assert spans(await reading) == [(0, 2)]
    assert other.woken == 1


async def test_a_failed_or_cancelled_read_wakes_who_waits_for_it(world: World, me: Listener) -> None:
    await world.publish(3)
    await world.chill()
    share_partition = await world.share_partition()
    request = AcquireRequest("other", 500, 500)
    world.records.open.clear()
    reading = asyncio.create_task(share_partition.acquire_uncached(request))
    await settle()
    share_partition.add_listener(me)
    reading.cancel()
    await asyncio.wait([reading])
    assert me.woken == 1
    world.records.open.set()
    world.records.away = True
    share_partition.add_listener(me)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        await share_partition.acquire_uncached(request)
    assert me.woken == 2


async def test_a_gap_in_the_log_is_passed_over(world: World, me: Listener) -> None:
    """What was released is gone from the log, and all that one read gives is held by another."""
    share_partition, other = await held(world, me, 5), Listener("m2")
    for offset in (5, 6):
        await world.publish(1, size=600_000)
        assert acquire(share_partition, other) == [(offset, offset)]
    say(share_partition, me, 0, 4, RELEASE)
    say(share_partition, other, 6, 6, RELEASE)
    await eventually(lambda: world.persister.written)
    tail = share_partition._log._state.hot_cache
    tail.drop_before(5)
    tail.start = 0
    assert acquire(share_partition, me) == [(6, 6)]
    assert share_partition.core.start_offset == 5


async def test_a_gap_in_the_store_is_passed_over(world: World, me: Listener) -> None:
    share_partition = await held(world, me, 5)
    await world.publish(5)
    assert acquire(share_partition, me) == [(5, 9)]
    say(share_partition, me, 0, 4, RELEASE)
    await eventually(lambda: world.persister.written)
    del world.records._partitions[RESOURCE].batches[0]
    await world.chill()
    assert await share_partition.acquire_uncached(AcquireRequest("x", 500, 500)) is NotFetched.NO_RECORDS
    assert share_partition.core.start_offset == 5


async def test_records_the_store_has_lost_are_an_error_not_a_reason_to_ask_again_and_again(
    world: World, me: Listener
) -> None:
    await world.publish(5)
    await world.chill()
    share_partition = await world.share_partition()
    world.records._partitions[RESOURCE].batches.clear()
    with pytest.raises(KafkaError, match="no records from offset 0"):
        await share_partition.acquire_uncached(AcquireRequest(me.holder, 500, 500))


async def test_without_room_nothing_is_acquired(world: World, me: Listener) -> None:
    await world.publish(5)
    assert acquire(await world.share_partition(), me, 0) is NotFetched.NO_RECORDS


async def test_only_batches_with_an_acquired_record_are_sent(world: World, me: Listener) -> None:
    await world.publish(2)
    for _ in range(4):
        await world.publish(2)
    share_partition = await world.share_partition()
    assert acquire(share_partition, me) == [(0, 9)]
    for first, last in ((0, 0), (5, 5), (9, 9)):
        say(share_partition, me, first, last, RELEASE)
    await eventually(lambda: world.persister.written)
    found = share_partition.acquire(AcquireRequest(me.holder, 500, 500))
    assert spans(found) == [(0, 0), (5, 5), (9, 9)]
    assert isinstance(found, Fetched)
    assert len(found.records) == 3 * len(stored(0, 2).data)
    assert found.offsets == 3


async def test_the_share_partition_follows_the_log_start_in_a_full_window(world: World, me: Listener) -> None:
    await world.configure("share.partition.max.record.locks", "100")
    share_partition = await held(world, me, 100)
    await world.publish(10)
    share_partition.add_listener(me)
    await share_partition._log.delete_records(100)
    assert acquire(share_partition, me) == [(100, 109)]


# --- leaving


async def test_who_leaves_gives_back_what_it_holds(world: World, me: Listener) -> None:
    share_partition, other = await held(world, me), Listener("m2")
    share_partition.join(other)
    share_partition.add_listener(other)
    share_partition.leave(me)
    await eventually(lambda: other.woken)
    assert acquire(share_partition, other) == [(0, 9)]
    assert not share_partition.retired


async def test_a_member_is_released_through_all_its_streams_and_calls(world: World) -> None:
    first, second, foreign = Listener("m1"), Listener("m1"), Listener("m1@2")
    share_partition = await held(world, first, 3)
    for who in (second, foreign):
        await world.publish(2)
        acquire(share_partition, who)
    await world.publish(2)
    await world.acquire(member="m1")
    await world.publish(2)
    await world.acquire(member="@m1")
    world.leadership.release_member("g", "m1", set())
    await eventually(lambda: world.persister.written)
    rest = {(lost.first, lost.last) for lost in share_partition.core.held()}
    assert rest == {(5, 6), (9, 10)}


async def test_when_the_last_has_left_the_state_is_forgotten(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    share_partition.leave(me)
    await settle()
    assert not share_partition.retired
    world.persister.open.set()
    await eventually(lambda: share_partition.retired)
    assert me.retirements == 0
    assert world.persister.written == 1
    await world.initialize(state_epoch=2, start=8)
    assert (await world.share_partition()).core.start_offset == 8


@pytest.mark.parametrize("reason", ["a stream", "a fetch that waits", "held records", "a read"])
async def test_it_stays_while_somebody_uses_it(world: World, me: Listener, reason: str) -> None:
    await world.publish(3)
    share_partition, other = await world.share_partition(), Listener("m2")
    share_partition.join(me)
    if reason == "a stream":
        share_partition.join(other)
    elif reason == "a fetch that waits":
        share_partition.add_listener(other)
    elif reason == "held records":
        acquire(share_partition, other)
    else:
        await world.chill()
        world.records.open.clear()
        reading = asyncio.create_task(share_partition.acquire_uncached(AcquireRequest("x", 1, 1)))
        await settle()
    share_partition.leave(me)
    world.leadership.drop_unused()
    assert not share_partition.retired
    if reason == "a read":
        world.records.open.set()
        assert isinstance(await reading, Fetched)


async def test_records_held_by_calls_keep_it_until_they_are_acknowledged(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    await world.publish(1)
    await world.acquire(member="caller")
    share_partition.leave(me)
    await settle()
    assert not share_partition.retired
    await world.acquire(member="caller")
    await world.acknowledge((0, 10, ACCEPT), member="caller")
    await settle()
    assert not share_partition.retired, "calls come and go; it is forgotten by and by"
    world.leadership.drop_unused()
    assert share_partition.retired


# --- the end


async def test_once_retired_it_refuses_everything(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    await world.chill()
    share_partition.retire()
    share_partition.retire()
    assert me.retirements == 1
    for refused in (
        lambda: share_partition.acquire(AcquireRequest(me.holder, 1, 1)),
        lambda: say(share_partition, me, 0, 0),
    ):
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            refused()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await share_partition.acquire_uncached(AcquireRequest(me.holder, 1, 1))
    await asyncio.sleep(100)
    assert (me.lost, world.persister.writes) == ([(0, 9)], [])


async def test_a_read_that_returns_after_the_end_acquires_nothing(world: World, me: Listener) -> None:
    await world.publish(1)
    await world.chill()
    share_partition = await world.share_partition()
    world.records.open.clear()
    reading = asyncio.create_task(share_partition.acquire_uncached(AcquireRequest(me.holder, 1, 1)))
    await settle()
    share_partition.retire()
    world.records.open.set()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await reading
    assert not share_partition.core.held()


async def test_a_write_under_way_at_the_end_is_answered_as_it_turns_out(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    under_way = say(share_partition, me, 0, 0)
    await settle()
    waiting = say(share_partition, me, 1, 1)
    share_partition.release_member("m1")
    share_partition.retire()
    assert (under_way.told, waiting.told) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])
    world.persister.open.set()
    await eventually(lambda: under_way.told == [ErrorCode.NONE])
    assert len(world.persister.writes) == 1


async def test_it_stops_once_what_was_asked_for_is_durable(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    outcomes = [say(share_partition, me, 0, 0)]
    await settle()
    outcomes.append(say(share_partition, me, 1, 1))
    stopping = asyncio.create_task(share_partition.stop())
    await settle()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        say(share_partition, me, 2, 2)
    assert not share_partition.retired
    world.persister.open.set()
    await stopping
    assert share_partition.retired
    assert [outcome.told for outcome in outcomes] == [[ErrorCode.NONE]] * 2
    assert await world.start_offset() == 2


async def test_it_stops_in_time_also_when_the_coordinator_does_not_answer(world: World, me: Listener) -> None:
    share_partition = await held(world, me)
    world.persister.open.clear()
    under_way = say(share_partition, me, 0, 0)
    await settle()
    waiting = say(share_partition, me, 1, 1)
    start = now()
    await share_partition.stop()
    assert 5 <= now() - start < 5.1
    assert (under_way.told, waiting.told) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])
    world.persister.open.set()
    await eventually(lambda: under_way.told == [ErrorCode.NONE])


async def test_an_idle_one_stops_at_once(world: World) -> None:
    share_partition = await world.share_partition()
    await share_partition.stop()
    assert share_partition.retired
