"""Deliveries and acknowledgements of a run in any order of reports, the reports, and the verdict."""

from __future__ import annotations

import pytest

from sharebroker_server.flights.core.flight import FlightAcknowledgement
from sharebroker_server.flights.core.ledger import (
    ACKNOWLEDGED,
    ARCHIVED,
    FlightDelivery,
    Ledger,
    PartitionState,
    RunVerdict,
    Totals,
    add_report,
    confirmed,
    delivered,
    finished_records,
    judge_run,
    ranges,
)

A, B = ("a", 1), ("b", 1)


def delivery(
    offset: int, response: FlightAcknowledgement = FlightAcknowledgement.ACCEPT, delivery_count: int = 1
) -> FlightDelivery:
    return FlightDelivery(0, offset, delivery_count, response, "UA", "EWR-IAH", 1, 2)


def test_open_batches_are_held() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0), delivery(1)])
    ledger.delivered(B, 1.0, [delivery(2)])
    assert (ledger.holding("a"), ledger.holding("b"), ledger.holding("c")) == (2, 1, 0)
    ledger.confirmed(A, 2.0, {})
    assert ledger.holding("a") == 0


def test_lock_lost_before_the_delivery_is_observed() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0, delivery_count=3)])
    assert ledger.totals.lost == 2


@pytest.mark.parametrize(
    ("response", "totals"),
    [
        (FlightAcknowledgement.ACCEPT, (1, 0, 0)),
        (FlightAcknowledgement.RELEASE, (0, 1, 0)),
        (FlightAcknowledgement.REJECT, (0, 0, 1)),
    ],
)
def test_confirmed_acknowledgements_are_counted(
    response: FlightAcknowledgement, totals: tuple[int, ...]
) -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0, response)])
    assert ledger.totals == Totals()
    ledger.confirmed(A, 2.0, {})
    assert (ledger.totals.accepted, ledger.totals.released, ledger.totals.rejected) == totals
    assert ((0, 0) in ledger.finals) is (response is not FlightAcknowledgement.RELEASE)


@pytest.mark.parametrize(("lock_lost", "accepted"), [(True, 0), (False, 1)])
def test_only_unknown_outcomes_are_resolved(lock_lost: bool, accepted: int) -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.confirmed(A, 2.0, {(0, 0): lock_lost})
    ledger.resolve_orphans({(0, 0)}, 3.0)
    assert ledger.totals.accepted == accepted


def test_acknowledgement_of_a_dead_worker_is_void_after_redelivery() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.delivered(B, 2.0, [delivery(0, delivery_count=2)])
    ledger.died("a")
    ledger.resolve_orphans({(0, 0)}, 3.0)
    assert ledger.finals == {}


def judged(
    ledger: Ledger, finished: set[int], end: int = 3, before: frozenset[int] = frozenset()
) -> RunVerdict:
    places = {(0, offset) for offset in finished}
    ledger.resolve_orphans(places, at=99.0)
    return judge_run({0: end}, {(0, offset) for offset in before}, places, ledger)


def test_run_with_every_record_finished_once_is_good() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0), delivery(1, FlightAcknowledgement.REJECT), delivery(2)])
    ledger.confirmed(A, 2.0, {})
    verdict = judged(ledger, {0, 1, 2})
    assert verdict.good
    assert (verdict.accepted, verdict.rejected, verdict.published) == (2, 1, 3)
    assert ledger.summary.finished == 3


def test_released_record_is_redelivered_and_finished() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0, FlightAcknowledgement.RELEASE)])
    ledger.confirmed(A, 2.0, {})
    ledger.delivered(B, 3.0, [delivery(0, FlightAcknowledgement.REJECT, delivery_count=2)])
    ledger.confirmed(B, 4.0, {})
    assert judged(ledger, {0}, end=1).good
    assert (ledger.totals.released, ledger.totals.rejected, ledger.totals.lost) == (1, 1, 0)


def test_unfinished_record_is_missing() -> None:
    verdict = judged(Ledger(), set(), end=1)
    assert not verdict.good
    assert verdict.missing == ((0, 0),)


def test_confirmed_record_without_stored_state_is_missing() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.confirmed(A, 2.0, {})
    assert judged(ledger, set(), end=1).missing == ((0, 0),)


def test_record_finished_without_acknowledgement_is_unexplained() -> None:
    verdict = judged(Ledger(), {0}, end=1)
    assert not verdict.good
    assert verdict.unexplained == ((0, 0),)


def test_delivery_after_the_accept_is_found() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.confirmed(A, 2.0, {})
    ledger.delivered(B, 3.0, [delivery(0, delivery_count=2)])
    assert judged(ledger, {0}, end=1).redelivered == ((0, 0),)


def test_second_delivery_under_the_same_number_is_found() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.confirmed(A, 2.0, {})
    ledger.delivered(B, 3.0, [delivery(0)])
    assert judged(ledger, {0}, end=1).redelivered == ((0, 0),)


def test_old_delivery_seen_late_is_no_redelivery() -> None:
    ledger = Ledger()
    ledger.delivered(A, 2.0, [delivery(0, delivery_count=2)])
    ledger.confirmed(A, 3.0, {})
    ledger.delivered(B, 4.0, [delivery(0, delivery_count=1)])
    ledger.confirmed(B, 5.0, {(0, 0): True})
    assert judged(ledger, {0}, end=1).good
    assert ledger.totals.lost == 1


def test_redelivery_of_an_earlier_runs_record_is_an_error() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(1)])
    ledger.confirmed(A, 2.0, {})
    good = judged(ledger, {0, 1}, end=2, before=frozenset({0}))
    assert good.good
    assert good.earlier == 1
    ledger.delivered(B, 3.0, [delivery(0)])
    assert judged(ledger, {0, 1}, end=2, before=frozenset({0})).redelivered == ((0, 0),)


def test_orphaned_acknowledgement_counts_if_state_has_it() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0), delivery(1)])
    ledger.died("a")
    ledger.delivered(B, 2.0, [delivery(1, delivery_count=2)])
    ledger.confirmed(B, 3.0, {})
    verdict = judged(ledger, {0, 1}, end=2)
    assert verdict.good
    assert (verdict.accepted, ledger.totals.lost) == (2, 1)


def test_release_of_a_dead_worker_does_not_explain_a_finished_record() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0, FlightAcknowledgement.RELEASE)])
    ledger.died("a")
    assert judged(ledger, {0}, end=1).unexplained == ((0, 0),)


def test_lock_may_be_lost_before_the_death_is_reported() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.delivered(B, 2.0, [delivery(0, delivery_count=2)])
    ledger.confirmed(B, 3.0, {})
    ledger.died("a")
    assert judged(ledger, {0}, end=1).good
    assert (ledger.totals.accepted, ledger.totals.lost) == (1, 1)


def test_unknown_outcome_is_resolved_by_the_state() -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0)])
    ledger.confirmed(A, 2.0, {(0, 0): False})
    assert ledger.totals.accepted == 0
    assert judged(ledger, {0}, end=1).good
    assert ledger.totals.accepted == 1


@pytest.mark.parametrize(
    ("offset", "finished"),
    [(0, True), (4, True), (5, False), (6, True), (7, True), (8, False), (9, True), (10, False)],
)
def test_finished_offsets_of_a_state(offset: int, finished: bool) -> None:
    state = PartitionState(5, ((6, 7, ACKNOWLEDGED), (8, 8, 0), (9, 9, ARCHIVED)))
    assert (offset in state.finished(11)) is finished


def test_finished_offsets_are_listed_by_partition() -> None:
    states = {0: PartitionState(1), 1: PartitionState(0, ((1, 1, ARCHIVED),))}
    assert finished_records({0: 2, 1: 2}, states) == {(0, 0), (1, 1)}


def test_adjacent_runs_form_one_range() -> None:
    assert ranges([(1, 5), (0, 3), (0, 4), (0, 9)]) == [
        "partition 0: 3-4",
        "partition 0: 9",
        "partition 1: 5",
    ]


GOT = [
    FlightDelivery(0, 5, 1, FlightAcknowledgement.ACCEPT, "UA", "EWR-IAH", 3, -2),
    FlightDelivery(1, 6, 2, FlightAcknowledgement.REJECT, "AA", "JFK-MIA", 0, 0),
    FlightDelivery(1, 7, 1, FlightAcknowledgement.ACCEPT, "AA", "JFK-MIA", 0, 0),
]


def test_reports_of_workers_update_the_ledger() -> None:
    ledger = Ledger()
    add_report(delivered(4, 1.5, GOT), "w", ledger)
    assert ledger.deliveries == [(delivery, 1.5) for delivery in GOT]
    add_report(confirmed(4, 2.5, {(1, 7): True}), "w", ledger)
    assert (ledger.totals.accepted, ledger.totals.rejected) == (1, 1)
    assert ledger.finals[0, 5].at == 2.5


@pytest.mark.parametrize("line", [b"", b"nonsense\n"])
def test_invalid_values_are_rejected(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        add_report(line, "w", Ledger())
