"""What is written, what counts as finished meanwhile, and what a failed write leaves behind."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.values import Completed
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    REJECT,
    RELEASE,
    Store,
    ack,
    acks,
    check,
    done,
    fetch,
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
    assert written == (3, 9, 5, 0, ())


@pytest.mark.parametrize(
    ("before", "part", "written", "complete"),
    [
        pytest.param("", "0-29", "30:", 0, id="all"),
        pytest.param("", "0-9", "10:", 0, id="front"),
        pytest.param("", "0", "1:", 0, id="first record"),
        pytest.param("", "10-19", "0: 10-19 acknowledged 1", 10, id="middle"),
        pytest.param("", "29", "0: 29 acknowledged 1", 1, id="last record"),
        pytest.param("10-19", "0-9", "20:", 0, id="front, middle done before"),
        pytest.param("10-19 25", "0-9", "20:", 1, id="front, and one behind stays counted"),
        pytest.param("1-29", "0", "30:", 0, id="the one that held all up"),
        pytest.param("0-9", "20-29", "10: 20-29 acknowledged 1", 10, id="behind what is held"),
        pytest.param("5-9", "0-4 15", "10: 15 acknowledged 1", 1, id="front and a part"),
        pytest.param("", "0-4 6-9", "5: 6-9 acknowledged 1", 4, id="all but one of the front"),
    ],
)
def test_the_spso_is_sent_as_it_will_be(before: str, part: str, written: str, complete: int) -> None:
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
def test_the_spso_jumps_over_a_gap_in_the_log(kind: int) -> None:
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


@pytest.mark.parametrize(
    ("order", "outcomes"), [*product(permutations(range(3)), product([True, False], repeat=3))]
)
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


@pytest.mark.parametrize("error", FAILURES)
@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_a_failed_write_leaves_everything_as_it_was(kind: int, error: ErrorCode) -> None:
    share = opened(stored="0-9 available 1")
    fetch(share, "0-9 10-19")
    before = picture(share, members=True), share.delivery_complete_count, share.next_fetch_offset()
    transition = share.acknowledge("m1", acks("3-12", kind), 0.0)
    assert transition is not None
    assert share.complete([transition], error) == Completed(False, 0, 0, 0)
    assert (picture(share, members=True), share.delivery_complete_count, share.next_fetch_offset()) == before
    check(share)
    assert ack(share, "3-12", kind) is not None


def test_a_code_of_none_is_success() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9"), 0.0)
    assert transition is not None
    assert share.complete([transition], ErrorCode.NONE).acknowledged == 10


def test_while_pending_a_record_is_neither_fetchable_nor_acknowledgeable_nor_passed() -> None:
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


def test_a_record_acknowledged_after_a_failed_write_is_written_once_more() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9"), 0.0)
    assert transition is not None
    share.complete([transition], ErrorCode.REQUEST_TIMED_OUT)
    assert show(ack(share, "0-9", REJECT)) == "10:"


def test_what_the_log_lost_is_left_out_of_a_pending_write() -> None:
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


def test_what_the_log_lost_does_not_come_back_when_its_write_fails() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9"), 0.0)
    assert transition is not None
    share.move_log_start(10)
    assert show(share.write([transition])) == "10:"
    share.complete([transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (picture(share), share.start_offset) == ("", 10)


def test_equal_pending_neighbours_are_committed_once_whatever_is_acquired_beside_them() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("7 8 9"), 0.0)
    assert pending is not None
    share.expire(30.0)
    fetch(share, "0-9", now=30.0)
    assert share.complete([pending]) == Completed(False, 3, 0, 0)
    assert share.delivery_complete_count == 3


def test_an_expiry_travels_with_the_next_write() -> None:
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


def test_delivered_once_and_lost_comes_back_at_its_first_attempt_on_the_next_leader() -> None:
    share, store = opened(), Store()
    fetch(share, "0-29")
    store.apply(ack(share, "10-19") or share.write())
    later = opened(0, "10-19 acknowledged 1")
    assert store.loaded().batches == later._loaded.batches
    assert ranges(fetch(later, "0-29")) == "0-9 x1, 20-29 x1"
