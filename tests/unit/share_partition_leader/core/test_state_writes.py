"""State writes: their contents, finished records while pending, and failed writes."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, StateBatch
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    Completed,
    Effects,
    LoadedState,
    Reply,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.runs import Run, Transition
from sharebroker_server.share_partition_leader.core.state_writes import RETRY_INTERVAL, WriteQueue
from tests.testkit.tables import each
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    ACQUIRED,
    AVAILABLE,
    LIMITED,
    REJECT,
    RELEASE,
    Store,
    ack,
    acks,
    check,
    done,
    fetch,
    log_of,
    opened,
    picture,
    ranges,
    show,
)

FAILURES = [
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
]


def test_a_write_carries_the_epochs_of_the_loaded_state() -> None:
    written = opened(5, leader_epoch=9).write()
    assert written == (3, 9, 5, 0, (), None, False)


@pytest.mark.parametrize(
    ("before", "part", "written", "complete"),
    [
        pytest.param("", "0-29", "30:", 0, id="all"),
        pytest.param("", "0-9", "10:", 0, id="front"),
        pytest.param("", "0", "1:", 0, id="first record"),
        pytest.param("", "10-19", "0: 10-19 acknowledged 1", 10, id="middle"),
        pytest.param("", "29", "0: 29 acknowledged 1", 1, id="last record"),
        pytest.param("10-19", "0-9", "20:", 0, id="front, middle done before"),
        pytest.param("10-19 25", "0-9", "20:", 1, id="front; a later finished record stays counted"),
        pytest.param("1-29", "0", "30:", 0, id="the record that held back the start offset"),
        pytest.param("0-9", "20-29", "10: 20-29 acknowledged 1", 10, id="after acquired records"),
        pytest.param("5-9", "0-4 15", "10: 15 acknowledged 1", 1, id="front and a part"),
        pytest.param("", "0-4 6-9", "5: 6-9 acknowledged 1", 4, id="all but one of the front"),
    ],
)
def test_write_contains_the_spso_after_the_change(
    before: str, part: str, written: str, complete: int
) -> None:
    share = opened()
    fetch(share, "0-9 10-19 20-29", size=10)
    if before:
        ack(share, before)
    result = ack(share, part)
    assert result is not None
    assert show(result) == written
    assert result.delivery_complete_count == complete == share.delivery_complete_count
    assert result.start_offset == share.start_offset


@pytest.mark.parametrize("kind", [ACCEPT, REJECT])
def test_spso_skips_a_gap_in_the_log(kind: int) -> None:
    share = opened()
    fetch(share, "0-9")
    fetch(share, "20-29")
    assert show(ack(share, "0-9", kind)) == "20:"
    assert share.in_flight_count == 10


def test_equal_neighbours_are_written_as_one_batch() -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    assert show(ack(share, "1-3 4 5-12")) == "0: 1-12 acknowledged 1"


def test_different_delivery_counts_are_written_apart() -> None:
    share = opened(stored="0-4 available 1")
    fetch(share, "0-9")
    assert show(ack(share, "1-9")) == "0: 1-4 acknowledged 2, 5-9 acknowledged 1"


# --- several transitions at once


def test_another_writes_records_do_not_count_as_finished() -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    first = share.acknowledge("m1", acks("0-9"), 0.0)
    second = share.acknowledge("m1", acks("10-19"), 0.0)
    assert first is not None
    assert second is not None
    assert show(share.write([first])) == "10:"
    assert show(share.write([second])) == "0: 10-19 acknowledged 1"
    assert show(share.write([first, second])) == "20:"
    assert show(share.write()) == "0:"
    assert share.write([second]).delivery_complete_count == 10


def test_a_released_neighbour_in_the_same_write_holds_the_spso() -> None:
    share = opened()
    fetch(share, "0-9")
    first = share.acknowledge("m1", acks("0-2"), 0.0)
    second = share.acknowledge("m1", acks("3-5", RELEASE), 0.0)
    third = share.acknowledge("m1", acks("6-9"), 0.0)
    transitions = [t for t in (first, second, third) if t is not None]
    assert show(share.write(transitions)) == "3: 3-5 available 1, 6-9 acknowledged 1"
    assert share.write(transitions).delivery_complete_count == 4


@each("order, outcomes", [*product(permutations(range(3)), product([True, False], repeat=3))])
def test_transitions_end_in_any_order_with_any_outcome(
    order: tuple[int, ...], outcomes: tuple[bool, ...]
) -> None:
    share, store = opened(), Store()
    fetch(share, "0-9 10-19 20-29", size=10)
    parts = ["0-9", "10-19", "20-29"]
    transitions = [share.acknowledge("m1", acks(part), 0.0) for part in parts]
    for transition, durable in zip(transitions, outcomes, strict=True):
        assert transition is not None
        if durable:
            store.apply(share.write([transition]))
    for index in order:
        transition = transitions[index]
        assert transition is not None
        share.complete([transition], None if outcomes[index] else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        check(share)
    held = [outcomes.index(False) * 10] if False in outcomes else []
    assert share.start_offset == (held[0] if held else 30)
    for offset in range(30):
        assert store.finished(offset) is outcomes[offset // 10]
    for part, durable in zip(parts, outcomes, strict=True):
        if not durable:
            assert ack(share, part) is not None
    assert share.start_offset == 30


@each("error", FAILURES)
@each("kind", [ACCEPT, RELEASE, REJECT])
def test_failed_write_restores_the_previous_state(kind: int, error: ErrorCode) -> None:
    share = opened(stored="0-9 available 1")
    fetch(share, "0-9 10-19")
    before = picture(share, members=True), share.delivery_complete_count, share.next_fetch_offset()
    transition = share.acknowledge("m1", acks("3-12", kind), 0.0)
    assert transition is not None
    assert share.complete([transition], error) == Completed(False, 0, 0, 0)
    assert (picture(share, members=True), share.delivery_complete_count, share.next_fetch_offset()) == before
    check(share)
    assert ack(share, "3-12", kind) is not None


def test_error_code_none_is_success() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9"), 0.0)
    assert transition is not None
    assert share.complete([transition], ErrorCode.NONE).acknowledged == 10


def test_a_pending_record_is_neither_fetched_nor_acknowledged() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-4"), 0.0)
    assert transition is not None
    ack(share, "5-9")
    assert share.start_offset == 0
    assert ranges(fetch(share, "0-9")) == ""
    with pytest.raises(KafkaError, match="acknowledgement pending"):
        share.acknowledge("m1", acks("4"), 0.0)
    share.complete([transition])
    assert share.start_offset == 10


def test_record_acknowledged_after_a_failed_write_is_written_again() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9"), 0.0)
    assert transition is not None
    share.complete([transition], ErrorCode.REQUEST_TIMED_OUT)
    assert show(ack(share, "0-9", REJECT)) == "10:"


def test_pending_write_omits_deleted_records() -> None:
    """KAFKA-19859: an acknowledgement after the log's start moved must not shift the SPSO."""
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    transition = share.acknowledge("m1", acks("5-14", RELEASE), 0.0)
    assert transition is not None
    share.move_log_start(10)
    assert show(share.write([transition])) == "10: 10-14 available 1"
    share.move_log_start(12)
    assert show(share.write([transition])) == "12: 12-14 available 1"
    assert share.complete([transition]) == Completed(True, 0, 3, 0)
    assert picture(share) == "12-14 available 1, 15-19 acquired 1"


def test_deleted_records_stay_deleted_when_their_write_fails() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9"), 0.0)
    assert transition is not None
    share.move_log_start(10)
    assert show(share.write([transition])) == "10:"
    share.complete([transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (picture(share), share.start_offset) == ("", 10)


def test_equal_pending_neighbours_are_committed_once() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("7 8 9"), 0.0)
    assert pending is not None
    share.expire(30.0)
    fetch(share, "0-9", now=30.0)
    assert share.complete([pending]) == Completed(False, 3, 0, 0)
    assert share.delivery_complete_count == 3


def test_lock_timeout_is_stored_with_the_next_write() -> None:
    share = opened()
    fetch(share, "0-9", "m1", now=0.0)
    fetch(share, "10-19", "m2", now=10.0)
    expired = share.expire(30.0)
    acked = share.acknowledge("m2", acks("15-19"), 30.0)
    assert expired.transition is not None
    assert acked is not None
    assert show(share.write([expired.transition, acked])) == "0: 0-9 available 1, 15-19 acknowledged 1"
    share.complete([expired.transition, acked], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    # The locks stay lost, the acknowledgement is undone.
    assert picture(share, members=True) == "0-9 available 1, 10-19 acquired 1 m2"


def test_a_record_changed_twice_before_its_write_is_written_with_both_counts() -> None:
    share, store = opened(), Store()
    fetch(share, "0-9", now=0.0)
    expired = share.expire(30.0)
    fetch(share, "0-9", now=30.0)
    acked = share.acknowledge("m1", acks("1-9"), 31.0)
    assert expired.transition is not None
    assert acked is not None
    store.apply(done(share, expired.transition, acked))
    assert store.records == {0: (1, 0)} | dict.fromkeys(range(1, 10), (2, 2))


def test_a_first_delivery_lost_with_its_leader_is_not_counted() -> None:
    share, store = opened(), Store()
    fetch(share, "0-29")
    store.apply(ack(share, "10-19") or share.write())
    later = opened(0, "10-19 acknowledged 1")
    assert store.loaded().batches == (StateBatch(10, 19, RecordState.ACKNOWLEDGED, 1),)
    assert ranges(fetch(later, "0-29")) == "0-9 x1, 20-29 x1"


@pytest.mark.parametrize(
    ("start", "stored", "window", "pointers", "complete"),
    [
        pytest.param(10, "", "", (10, 10, 10), 0, id="nothing in flight"),
        pytest.param(0, "0-9 available 1", "0-9 available 1", (0, 9, 0), 0, id="available"),
        pytest.param(0, "0-9 acknowledged 1", "", (10, 10, 10), 0, id="all acknowledged"),
        pytest.param(0, "0-9 archived 5", "", (10, 10, 10), 0, id="all archived"),
        pytest.param(
            0, "0-4 acknowledged 1, 5-9 archived 5", "", (10, 10, 10), 0, id="a finished front of two batches"
        ),
        pytest.param(
            0, "0-4 acknowledged 1, 5-9 available 2", "5-9 available 2", (5, 9, 5), 0, id="finished front"
        ),
        pytest.param(
            0,
            "0-4 available 1, 5-9 acknowledged 1",
            "0-4 available 1, 5-9 acknowledged 1",
            (0, 9, 0),
            5,
            id="finished tail",
        ),
        pytest.param(
            0,
            "5-9 acknowledged 1",
            "0-4 available 0, 5-9 acknowledged 1",
            (0, 9, 0),
            5,
            id="gap at the start",
        ),
        pytest.param(
            0,
            "0-4 available 1, 8-9 archived 2",
            "0-4 available 1, 5-7 available 0, 8-9 archived 2",
            (0, 9, 0),
            2,
            id="gap between batches",
        ),
        pytest.param(
            0,
            "0-4 acknowledged 1, 8 available 1",
            "5-7 available 0, 8 available 1",
            (5, 8, 5),
            0,
            id="up to a gap",
        ),
        pytest.param(
            100,
            "110 available 1, 119 acknowledged 1",
            "100-109 available 0, 110 available 1, 111-118 available 0, 119 acknowledged 1",
            (100, 119, 100),
            1,
            id="two gaps",
        ),
    ],
)
def test_loaded_window_equals_the_stored_state(
    start: int, stored: str, window: str, pointers: tuple[int, int, int], complete: int
) -> None:
    share = opened(start, stored)
    check(share)
    assert picture(share) == window
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == pointers
    assert share.delivery_complete_count == complete
    assert share.next_deadline() is None


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param((StateBatch(0, 9, AVAILABLE, 1),), id="before the start"),
        pytest.param((StateBatch(15, 14, AVAILABLE, 1),), id="last before first"),
        pytest.param((StateBatch(10, 19, ACQUIRED, 1),), id="acquired is never persisted"),
        pytest.param((StateBatch(10, 19, AVAILABLE, 1), StateBatch(15, 20, AVAILABLE, 2)), id="overlap"),
        pytest.param((StateBatch(20, 29, AVAILABLE, 1), StateBatch(10, 15, AVAILABLE, 1)), id="descending"),
    ],
)
def test_inconsistent_state_is_rejected(stored: tuple[StateBatch, ...]) -> None:
    with pytest.raises(KafkaError) as refused:
        SteppedPartition(SharePartitionSettings(), LoadedState(0, 1, 10, stored))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_loaded_delivery_counts_continue() -> None:
    share = opened(stored="0-4 available 2, 5-9 available 1")
    assert ranges(fetch(share, "0-9")) == "0-4 x3, 5-9 x2"


def test_loaded_records_have_no_holder() -> None:
    share = opened(stored="0-9 available 1")
    with pytest.raises(KafkaError) as refused:
        ack(share, "0-9")
    assert refused.value.metadata["reason"] == "lock_lost"


# --- the gap window: records first acquired when the last leader stopped (KAFKA-18494)


@pytest.mark.parametrize(
    ("stored", "log", "most", "size", "expected"),
    [
        pytest.param("10-19 available 1", "0-19", 500, 500, "0-9 x1, 10-19 x2", id="one log batch"),
        pytest.param("10-19 available 1", "0-9 10-19", 10, 500, "0-9 x1", id="limit ends at the gap's end"),
        pytest.param("10-19 available 1", "0-19", 1, 500, "0-9 x1", id="clipped to the gap"),
        pytest.param("10-19 available 1", "0-4 5-9 10-19", 3, 500, "0-4 x1", id="soft limit on log batches"),
        pytest.param("10-19 available 1", "0-4 5-9 10-19", 500, 5, "0-4 x1, 5-9 x1, 10-19 x2", id="units"),
        pytest.param("10-19 acknowledged 1", "0-19 20-29", 500, 500, "0-9 x1, 20-29 x1", id="then new ones"),
        pytest.param(
            "10-19 acknowledged 1, 30-39 available 1",
            "0-39",
            500,
            500,
            "0-9 x1, 20-29 x1, 30-39 x2",
            id="every gap in order",
        ),
        pytest.param("10-19 available 1", "0-4", 500, 500, "0-4 x1", id="up to the last read offset"),
    ],
)
def test_gaps_in_the_loaded_state_are_acquired_as_new(
    stored: str, log: str, most: int, size: int, expected: str
) -> None:
    share = opened(stored=stored)
    assert ranges(fetch(share, log, most=most, size=size)) == expected


def test_gap_in_the_loaded_state_is_acquired_in_parts() -> None:
    share = opened(stored="10-19 acknowledged 1")
    log = "0-1 2-3 4-5 6-7 8-9 10-19 20-29"
    taken = [ranges(fetch(share, log, most=4)) for _ in range(5)]
    assert taken == ["0-3 x1", "4-7 x1", "8-9 x1, 20-29 x1", "", ""]


def test_strict_limit_splits_a_gap_in_the_loaded_state() -> None:
    share = opened(stored="10-19 acknowledged 1")
    taken = [ranges(fetch(share, "0-9 10-19", most=4, mode=LIMITED)) for _ in range(4)]
    assert taken == ["0-3 x1", "4-7 x1", "8-9 x1", ""]


def test_spso_stops_at_a_gap_in_the_loaded_state() -> None:
    share = opened(stored="0-4 available 1, 10-19 acknowledged 1")
    fetch(share, "0-4")
    assert show(ack(share, "0-4")) == "5:"
    assert picture(share) == "5-9 available 0, 10-19 acknowledged 1"


def test_filled_gap_keeps_the_end_offset() -> None:
    share = opened(stored="10-19 available 1")
    fetch(share, "0-9")
    assert (share.end_offset, share.in_flight_count) == (19, 20)
    assert share.next_fetch_offset() == 10


def test_compacted_offsets_of_a_gap_are_skipped() -> None:
    share = opened(stored="10-19 available 1")
    assert ranges(fetch(share, "5-9 10-19")) == "5-9 x1, 10-19 x2"
    assert share.start_offset == 5


def test_gap_missing_from_the_log_is_skipped() -> None:
    share = opened(stored="10-19 available 1")
    assert ranges(fetch(share, "10-19")) == "10-19 x2"
    assert share.start_offset == 10


def test_log_gap_inside_a_loaded_gap_is_acquired() -> None:
    share = opened(stored="20-29 available 1")
    assert ranges(fetch(share, "0-4 15-19 20-29", most=8)) == "0-4 x1, 5-7 x1"
    assert ranges(fetch(share, "15-19 20-29", most=5)) == "15-19 x1"
    assert picture(share) == "0-7 acquired 1, 8-14 archived 0, 15-19 acquired 1, 20-29 available 1"


def test_acquisition_may_start_inside_a_loaded_gap() -> None:
    share = opened(stored="20-29 available 1")
    acquired = share.acquire(AcquireRequest("m1", 500, 500), 10, log_of("10-19"), 0.0)
    check(share)
    assert ranges(acquired) == "10-19 x1"
    assert share.next_fetch_offset() == 0


def test_full_loaded_window_still_acquires_its_gaps() -> None:
    settings = SharePartitionSettings(max_record_locks=20)
    share = opened(0, "10-19 acknowledged 1", settings)
    assert share.acquirable_offset() is not None
    assert ranges(fetch(share, "0-9 10-19 20-39")) == "0-9 x1, 20-29 x1"
    assert share.acquirable_offset() is None


ERROR = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def transition(*, runs: bool = False, batches: bool = True, reply: Reply | None = None) -> Transition:
    made = Transition(reply)
    if runs:
        made.runs.append(Run(0, 0, RecordState.ACQUIRED, 1, None))
    if batches:
        made.batches.append(StateBatch(0, 0, 0, 1))
    return made


def test_first_transition_requests_a_write() -> None:
    queue, effects = WriteQueue(), Effects()
    first, second = transition(), transition()
    queue.add(first, effects)
    assert (effects.write_due, effects.transitions, queue.busy) == (True, (first,), True)
    later = Effects()
    queue.add(second, later)
    assert (later.write_due, queue.take()) == (False, [first, second])


def test_completed_write_requests_the_next_one_for_waiting_transitions() -> None:
    queue, first = WriteQueue(), transition()
    queue.add(first, Effects())
    queue.take()
    queue.add(transition(), Effects())
    effects = Effects()
    assert queue.complete(None, effects) == [first]
    assert (effects.write_due, queue.busy) == (True, True)
    queue.take()
    queue.complete(None, effects)
    assert (effects.write_due, queue.busy, queue.idle) == (False, False, True)


def test_waiting_replies_are_rejected_and_the_write_is_empty() -> None:
    queue, effects = WriteQueue(), Effects()
    replies: list[KafkaError | None] = []
    queue.add(transition(reply=replies.append), Effects())
    queue.reject_waiting(ERROR, effects)
    assert [error for _, error in effects.replies] == [ERROR]
    assert (queue.take(), queue.busy) == ([], False)


def test_only_changes_without_runs_are_retried() -> None:
    queue, effects = WriteQueue(), Effects()
    lost, other, start_offset = transition(), transition(), transition(batches=False)
    empty = transition(batches=False, reply=lambda _: None)
    queue.add_retries([lost, transition(runs=True), empty, start_offset], 10.0)
    assert (queue.retry_at, queue.idle) == (10.0 + RETRY_INTERVAL, False)
    queue.add_retries([other], 11.0)
    assert queue.retry_at == 10.0 + RETRY_INTERVAL  # the first failure sets the time
    queue.flush_retries(effects)
    assert effects.transitions == (lost, start_offset, other)
    assert queue.idle is False
    assert not queue.retry_at


def test_empty_retry_queue_sets_no_timer() -> None:
    queue = WriteQueue()
    queue.add_retries([transition(runs=True)], 10.0)
    assert (queue.retry_at, queue.idle) == (None, True)
