"""The share-partition as events in and effects out: writes, replies, retries and the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, StateBatch
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    Configure,
    Effects,
    Event,
    Loaded,
    LoadedState,
    MembersLeft,
    Reconcile,
    RenewAll,
    Retire,
    SharePartitionSettings,
    Stop,
    TimerFired,
    UndoAcquire,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.core.state_writes import RETRY_INTERVAL

ACCEPT, RELEASE, RENEW = (1,), (2,), (4,)
UNAVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
LOCK = 30.0


class Harness:
    """A share-partition with ten acquired records of member m; `replies` are errors by request."""

    def __init__(
        self,
        acquired: int = 10,
        stored: Sequence[StateBatch] = (),
        delivery_count_limit: int = 5,
        max_record_locks: int = 2000,
    ) -> None:
        limits = SharePartitionSettings(delivery_count_limit, LOCK, max_record_locks)
        self.partition = SharePartition(limits, LoadedState(1, 1, 0, tuple(stored)))
        self.now = 0.0
        self.replies: dict[str, KafkaError | None] = {}
        if acquired:
            self.acquire(acquired)

    def handle(self, event: Event) -> Effects:
        effects = self.partition.handle(event, self.now)
        for reply, error in effects.replies:
            reply(error)
        return effects

    def acquire(self, count: int, member: str = "m", hidden: Sequence[tuple[int, int]] = ()) -> Effects:
        offset = self.partition.fetch_offset(0, 1000)
        assert offset is not None
        request = AcquireRequest(member, count, count)
        return self.handle(Acquire(request, offset, [(offset, offset + count - 1)], hidden))

    def acknowledge(self, first: int, last: int, types: Sequence[int] = ACCEPT, name: str = "ack") -> Effects:
        def reply(error: KafkaError | None) -> None:
            self.replies[name] = error

        return self.handle(Acknowledge("m", [AckBatch(first, last, types)], reply))

    def write(self, error: KafkaError | None = None) -> Effects:
        assert self.partition.next_write() is not None
        return self.handle(WriteCompleted(error))


def rejected(harness: Harness, event: Event) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        harness.handle(event)
    return caught.value.code


def test_an_acquisition_returns_ranges_and_the_next_deadline() -> None:
    harness = Harness(0)
    effects = harness.acquire(10)
    assert [(item.first, item.last) for item in effects.acquired] == [(0, 9)]
    assert (effects.deadline, effects.write_due, effects.replies) == (LOCK, False, ())


def test_a_reply_waits_until_the_write_is_durable() -> None:
    harness = Harness()
    effects = harness.acknowledge(0, 4)
    assert (effects.write_due, harness.replies) == (True, {})
    write = harness.partition.next_write()
    assert write is not None
    assert (write.start_offset, write.batches) == (5, ())
    assert not harness.replies
    effects = harness.handle(WriteCompleted(None))
    assert (harness.replies, effects.wake, harness.partition.writing) == ({"ack": None}, True, False)


def test_transitions_that_arrive_during_a_write_share_the_next() -> None:
    harness = Harness()
    assert harness.acknowledge(0, 0, name="a").write_due
    first = harness.partition.next_write()
    assert not harness.acknowledge(1, 1, name="b").write_due
    assert not harness.acknowledge(2, 2, name="c").write_due
    assert harness.handle(WriteCompleted(None)).write_due
    second = harness.partition.next_write()
    assert first is not None
    assert second is not None
    assert (first.start_offset, second.start_offset) == (1, 3)
    assert harness.replies == {"a": None}


def test_a_failed_write_is_rolled_back_and_rejected() -> None:
    harness = Harness()
    harness.acknowledge(0, 9)
    harness.write(UNAVAILABLE)
    assert harness.replies == {"ack": UNAVAILABLE}
    assert harness.partition.start_offset == 0
    assert harness.partition.in_flight.holds("m")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_fenced_write_retires_the_share_partition(code: ErrorCode) -> None:
    harness = Harness()
    harness.acknowledge(0, 9)
    assert harness.write(KafkaError(code)).retire


def test_a_lock_timeout_is_in_effect_at_once_and_retried_until_stored() -> None:
    harness = Harness()
    harness.now = LOCK
    effects = harness.handle(TimerFired())
    assert [(lost.member, lost.first, lost.last) for lost in effects.lost] == [("m", 0, 9)]
    assert (effects.wake, effects.write_due) == (True, True)
    assert harness.write(UNAVAILABLE).deadline == LOCK + RETRY_INTERVAL
    assert not harness.partition.unused
    assert not harness.handle(TimerFired()).write_due  # too early
    harness.now += RETRY_INTERVAL
    assert harness.handle(TimerFired()).write_due
    harness.write()
    assert harness.partition.unused


def test_a_timer_returns_the_earlier_of_lock_and_retry() -> None:
    harness = Harness()
    harness.now = LOCK
    harness.handle(TimerFired())
    harness.acquire(10)
    assert harness.write(UNAVAILABLE).deadline == LOCK + RETRY_INTERVAL
    harness.now += RETRY_INTERVAL
    assert harness.handle(TimerFired()).deadline == 2 * LOCK


def test_a_late_acknowledgement_waits_until_the_start_offset_is_stored() -> None:
    harness = Harness(delivery_count_limit=2)
    for _ in range(2):
        harness.now += LOCK
        harness.handle(TimerFired())
        harness.write(UNAVAILABLE)
        if harness.partition.start_offset == 0:
            harness.acquire(10)
    assert harness.partition.start_offset == 10  # archived in memory only
    assert harness.acknowledge(0, 9).write_due
    assert not harness.replies
    harness.write()
    assert harness.replies == {"ack": None}
    assert not harness.acknowledge(0, 9, name="later").write_due
    assert harness.replies == {"ack": None, "later": None}


def test_a_hidden_batch_is_archived_and_the_start_offset_stored() -> None:
    harness = Harness(0)
    effects = harness.acquire(5, hidden=[(0, 4)])
    assert (effects.acquired, effects.write_due) == ((), True)
    write = harness.partition.next_write()
    assert write is not None
    assert (write.start_offset, write.batches) == (5, ())
    harness.handle(WriteCompleted(None))
    assert not harness.partition.writing


def test_hidden_records_among_visible_ones_are_not_acquired() -> None:
    harness = Harness(0)
    request = AcquireRequest("m", 10, 10)
    effects = harness.handle(Acquire(request, 0, [(0, 4), (5, 9)], [(5, 9)]))
    assert [(item.first, item.last) for item in effects.acquired] == [(0, 4)]
    assert not effects.write_due


def test_loading_stores_a_start_offset_that_moved() -> None:
    stored = [StateBatch(0, 4, 2, 1)]
    assert Harness(0, stored).handle(Loaded()).write_due
    assert not Harness(0).handle(Loaded()).write_due


def test_a_reconciliation_replies_when_durable() -> None:
    harness = Harness()
    event = Reconcile("m", [AckBatch(0, 14, ACCEPT)], 0, 12, lambda error: harness.replies.update(r=error))
    effects = harness.handle(event)
    assert [(left.first, left.last, left.reason.name) for left in effects.unreconciled] == [
        (12, 14, "PAST_END")
    ]
    assert (effects.write_due, effects.deadline) == (True, LOCK)
    harness.write()
    assert harness.replies == {"r": None}


def test_renewing_all_extends_the_deadline() -> None:
    harness = Harness()
    harness.now = 10.0
    harness.handle(RenewAll("m"))
    harness.now = LOCK
    effects = harness.handle(TimerFired())
    assert (list(effects.lost), effects.deadline) == ([], 10.0 + LOCK)


def test_an_undone_acquisition_wakes_and_writes_nothing() -> None:
    harness = Harness()
    effects = harness.handle(UndoAcquire("m", [AckBatch(0, 9, RELEASE)]))
    assert (effects.wake, effects.write_due, harness.partition.fetch_offset(0, 10)) == (True, False, 0)


def test_members_that_left_release_durably_and_leave_it_unused() -> None:
    harness = Harness()
    effects = harness.handle(MembersLeft(["m", "other"]))
    assert (effects.write_due, effects.unused) == (True, False)
    assert harness.write().unused


def test_members_that_left_without_seeing_records_leave_it_unused_at_once() -> None:
    harness = Harness()
    effects = harness.handle(MembersLeft(["m"], undo=True))
    assert (effects.write_due, effects.wake, effects.unused) == (False, True, True)


def test_an_acquisition_after_members_left_keeps_it_in_use() -> None:
    harness = Harness()
    harness.handle(MembersLeft(["m"]))
    assert harness.partition.next_write() is not None
    harness.acquire(1, "m2")
    assert not harness.handle(WriteCompleted(None)).unused


def test_an_acquisition_without_records_has_no_effect() -> None:
    harness = Harness(0)
    effects = harness.handle(Acquire(AcquireRequest("m", 10, 10), 0, []))
    assert (effects.acquired, effects.deadline, effects.write_due) == ((), None, False)


@pytest.mark.parametrize(("error", "expected"), [(None, (15, 26)), (UNAVAILABLE, (15, 19))])
def test_a_deferred_batch_is_acquired_once_the_write_ends(
    error: KafkaError | None, expected: tuple[int, int]
) -> None:
    harness = Harness(15, max_record_locks=20)
    harness.acknowledge(0, 6)
    assert harness.acquire(12).acquired == ()
    assert harness.partition.fetch_offset(0, 1000) is None
    assert harness.write(error).wake
    [acquired] = harness.acquire(12).acquired
    assert (acquired.first, acquired.last) == expected


def test_released_records_are_acquired_while_a_batch_is_deferred() -> None:
    harness = Harness(15, max_record_locks=20)
    harness.acknowledge(0, 6)
    harness.acquire(12)
    harness.handle(UndoAcquire("m", [AckBatch(9, 9, RELEASE)]))
    assert harness.partition.fetch_offset(0, 1000) == 9


def test_a_changed_configuration_wakes() -> None:
    harness = Harness()
    changed = SharePartitionSettings(lock_duration=5.0)
    assert harness.handle(Configure(changed)).wake
    assert harness.partition.settings is changed


def test_stopping_rejects_requests_and_flushes_retries() -> None:
    harness = Harness()
    harness.now = LOCK
    harness.handle(TimerFired())
    harness.write(UNAVAILABLE)
    assert harness.handle(Stop()).write_due
    batches = [AckBatch(0, 0, RELEASE)]
    request = AcquireRequest("m", 1, 1)
    for event in (
        Acquire(request, 0, [(0, 0)]),
        Acknowledge("m", batches, lambda _: None),
        Reconcile("m", batches, 0, 10, lambda _: None),
        UndoAcquire("m", batches),
    ):
        assert rejected(harness, event) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError):
        harness.partition.fetch_offset(0, 10)
    harness.write(UNAVAILABLE)
    assert harness.partition.next_deadline() is None  # retried no more


def test_retiring_loses_locks_and_rejects_unsent_changes() -> None:
    harness = Harness()
    harness.acknowledge(0, 0, name="sent")
    assert harness.partition.next_write() is not None
    harness.acknowledge(1, 1, name="waiting")
    effects = harness.handle(Retire())
    assert [(lost.first, lost.last) for lost in effects.lost] == [(0, 0), (1, 1), (2, 9)]
    error = harness.replies["waiting"]
    assert error is not None
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not harness.handle(WriteCompleted(None)).write_due
    assert harness.replies["sent"] is None


def test_a_write_that_was_rejected_before_it_was_sent_is_none() -> None:
    harness = Harness()
    harness.acknowledge(0, 0)
    harness.handle(Retire())
    assert (harness.partition.next_write(), harness.partition.writing) == (None, False)


def test_a_rejected_request_changes_nothing() -> None:
    harness = Harness()
    assert rejected(harness, Acknowledge("x", [AckBatch(0, 0, ACCEPT)], lambda _: None)) is (
        ErrorCode.INVALID_RECORD_STATE
    )
    assert (harness.partition.writing, harness.partition.in_flight.holds("m")) == (False, True)


def test_the_fetch_offset_follows_the_log_start_and_stops_at_the_end() -> None:
    harness = Harness(0)
    assert harness.partition.fetch_offset(7, 10) == 7
    assert harness.partition.fetch_offset(7, 7) is None
    full = Harness(10, max_record_locks=10)
    assert full.partition.fetch_offset(0, 100) is None


def test_queries_show_locks_and_sizes() -> None:
    partition = Harness().partition
    assert partition.loaded_state.loaded_under == (1, 1)
    assert partition.in_flight.sizes() == (10, 1, 10, 10, 0, 0, 0)
    assert [(held.first, held.last) for held in partition.in_flight.held()] == [(0, 9)]
    assert [(item.first, item.last) for item in partition.in_flight.held_by("m")] == [(0, 9)]
    assert partition.in_flight.split_by_run(0, 9) == [(0, 9)]
    assert not partition.in_flight.next_is_throttled(3)
