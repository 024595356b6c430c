"""The judgement of histories: violations are found, and a correct history has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chaos.history import History, LogRead
from tests.chaos.report import FaultResult, Outcome, percentile, report
from tests.chaos.sequences import WorkSequence, WorkSequences
from tests.chaos.sightings import Sighting
from tests.testkit.checker.events import (
    Appended,
    Applied,
    Delivered,
    Event,
    Published,
    Run,
    Share,
    Stored,
    Verdict,
)
from tests.testkit.checker.invariants import Invariant
from tests.testkit.checker.locks import Limits

LIMITS = Limits(lock_duration=5.0, delivery_count=5, soon=60.0)
SHARE = Share("shipping", "orders", 0)
ACCEPTED = Sighting(2.0, SHARE, 0, "a", "k0", 1, 1, 2.0, Verdict.ACCEPT)


def stored(at: float, start: int, *runs: Run, whole: bool = False) -> Stored:
    return Stored(at, SHARE, whole, 1 if whole else -1, 1, start, runs)


def history(sightings: Sequence[Sighting], *events: Event) -> History:
    """Returns a history of one record, accepted at 2.1 s by a Kafka consumer, and of these sightings."""
    happened = History()
    happened.events += [Published(1.0, "orders", 0, 0, "a"), Applied(2.1, 1), *events]
    happened.sightings += sightings
    happened.reads += [
        LogRead(1.0, 1.1, [stored(1.1, 0, whole=True), Appended(1.1, "orders-0", 1, 0, 0)]),
        LogRead(2.15, 2.2, [stored(2.2, 0, Run(0, 0, 2, 1))]),
        LogRead(90.0, 90.1, []),
    ]
    return happened


def broken(happened: History) -> Invariant | None:
    violation = happened.judged(LIMITS, ["shipping"])
    return None if violation is None else violation.invariant


def test_record_accepted_once_passes() -> None:
    assert broken(history([ACCEPTED])) is None


def test_response_may_precede_the_reading_of_the_log() -> None:
    """Readings alternate: the effect of a response may be in the next one."""
    happened = history([ACCEPTED])
    happened.reads[1] = happened.reads[1]._replace(began=2.2, ended=2.3)
    happened.reads.insert(1, LogRead(2.0, 2.05, []))
    assert broken(happened) is None


def test_response_missing_from_the_log_is_detected() -> None:
    happened = history([ACCEPTED])
    happened.reads[1] = LogRead(2.15, 2.2, [])
    assert broken(happened) is Invariant.DURABLE_BEFORE_ANSWERED


def test_undelivered_record_is_detected() -> None:
    happened = history([ACCEPTED], Published(1.5, "orders", 0, 1, "b"))
    assert broken(happened) is Invariant.NEVER_LOST


def test_redelivery_after_accept_is_detected() -> None:
    again = replace_time(ACCEPTED, 30.0, request_id=2, member="k1")
    assert broken(history([ACCEPTED, again])) is Invariant.FINISHED_STAYS


@pytest.mark.parametrize(
    ("count", "found"), [(1, None), (2, Invariant.FINISHED_STAYS), (3, Invariant.FINISHED_STAYS)]
)
def test_delivery_that_its_client_buffered_may_arrive_after_the_accept(
    count: int, found: Invariant | None
) -> None:
    """The accept stored count 2: a delivery with count 1 was acquired before, any other after it."""
    accepted = ACCEPTED._replace(deliveries=2)
    buffered = replace_time(ACCEPTED, 30.0, request_id=2, member="k1")._replace(deliveries=count)
    assert broken(history([accepted, buffered])) is found
    assert broken(history([accepted, buffered], Applied(30.1, 2))) is found


@pytest.mark.parametrize(("count", "found"), [(1, None), (2, Invariant.COUNT_RISES), (3, None)])
def test_delivery_that_its_client_buffered_may_arrive_after_a_release(
    count: int, found: Invariant | None
) -> None:
    released = replace_time(ACCEPTED, 1.9, request_id=2, member="k1")._replace(
        deliveries=2, verdict=Verdict.RELEASE
    )
    buffered = replace_time(ACCEPTED, 2.0, request_id=3, member="k2")._replace(deliveries=count)
    accepted = ACCEPTED._replace(at=2.05, requested_at=2.05, deliveries=4)
    happened = history([released, buffered, accepted], Applied(1.92, 2))
    happened.reads.insert(1, LogRead(1.95, 1.96, []))
    assert broken(happened) is found


def test_record_in_transit_during_a_freeze_may_arrive_late() -> None:
    late = replace_time(ACCEPTED, 30.0, request_id=2, member="k1")
    happened = history([ACCEPTED, late])
    happened.stalls.append((2.0, 29.0))
    assert broken(happened) is None


def test_late_acknowledgement_response_is_not_a_confirmation() -> None:
    """An acknowledgement below the start offset is ignored; Kafka's protocol does not report that."""
    other = replace_time(ACCEPTED, 1.9, request_id=2, member="k1")
    released = replace_time(ACCEPTED, 1.95, request_id=3, member="k2")._replace(verdict=Verdict.RELEASE)
    assert broken(history([other, released, ACCEPTED], Applied(2.12, 2), Applied(2.12, 3))) is None


def test_changed_value_at_an_offset_is_detected() -> None:
    assert broken(history([ACCEPTED._replace(value="b")])) is Invariant.NEVER_LOST


def test_write_by_a_former_leader_is_detected() -> None:
    happened = history([ACCEPTED])
    late = [Appended(3.0, "orders-0", 2, 1, 1), Appended(3.0, "orders-0", 1, 2, 2)]
    happened.reads.append(LogRead(91.0, 91.1, late))
    assert broken(happened) is Invariant.EPOCHS_RISE


def test_grpc_group_is_checked_by_lock_tokens() -> None:
    share = Share("billing", "orders", 0)
    first = Delivered(2.0, share, 0, "a", "m0", 2**32, 1, 7.0)
    twice = replace(first, at=3.0, member="m1", token=2**32 + 1, count=2, deadline=8.0)
    assert broken(history([ACCEPTED], first, twice)) is Invariant.ONE_HOLDER


def test_longest_pause_of_each_kind_of_work_is_reported() -> None:
    sequences = WorkSequences()
    sequences.expect([("publish", 0), ("publish", 1)])
    for at in (1.0, 3.0, 2.0, 9.0):
        sequences.worked(("publish", 0), at)
    sequences.worked(("publish", 1), 4.0)
    assert sequences.pauses(0.0, 10.0) == {"publish": 6.0}
    assert sequences.pauses(0.0, 4.5) == {"publish": 4.0}
    assert sequences.idle(4.0) == [WorkSequence("publish", 1)]
    assert sequences.idle(2.5) == []


@pytest.mark.parametrize(
    ("values", "percent", "found"), [([1.0], 95, 1.0), (range(1, 101), 95, 95), ([3, 1, 2], 50, 2)]
)
def test_percentile_is_the_smallest_value_not_exceeded(
    values: Sequence[float], percent: int, found: float
) -> None:
    assert percentile(values, percent) == found


def replace_time(sighting: Sighting, at: float, *, request_id: int, member: str) -> Sighting:
    return sighting._replace(at=at, requested_at=at, request_id=request_id, member=member)


def test_pauses_are_reported_with_their_bounds() -> None:
    """The pause without a fault is subtracted; a pause beyond the bound is reported and does not fail the
    run.
    """
    outcome = Outcome(History(), "no clients", quiet=[0.1, 0.4], lease=9.0)
    for kind, pauses in {
        "kill gateway": [3.3] * 19 + [30.0],
        "kill share-coordinator": [3.5],
        "freeze gateway": [11.3],
        "freeze share-coordinator": [11.3, 11.5],
        "stop gateway": [0.8],
        "stop share-coordinator": [0.2, 1.0],
        "cut from Redis gateway": [60.0],
    }.items():
        outcome.struck += [FaultResult("", kind, 0.0, {"all": pause}, 0.0) for pause in pauses]
    lines = {line[:38].rstrip(): line for line in report(outcome).splitlines()}
    assert lines["kill gateway"].endswith("  3.0 s (p95): within")
    assert lines["kill share-coordinator"].endswith("  3.0 s (p95): over")
    assert lines["freeze gateway"].endswith("  11.0 s: within")
    assert lines["freeze share-coordinator"].endswith("  11.0 s: over")
    assert lines["stop gateway"].endswith("  0.5 s: within")
    assert lines["stop share-coordinator"].endswith("  0.5 s: over")
    assert lines["cut from Redis gateway"].endswith(" 0.00 s")
    assert outcome.well
