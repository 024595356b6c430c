"""Deliveries and acknowledgements of a run, in any order of reports."""

from __future__ import annotations

import pytest

from sharebroker_server.flights.core.flight import Acknowledgement
from sharebroker_server.flights.core.ledger import Delivery, Ledger, Totals

A, B = ("a", 1), ("b", 1)


def delivery(
    offset: int, answer: Acknowledgement = Acknowledgement.ACCEPT, delivery_count: int = 1
) -> Delivery:
    return Delivery(0, offset, delivery_count, answer, "UA", "EWR-IAH", 1, 2)


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
    ("answer", "totals"),
    [
        (Acknowledgement.ACCEPT, (1, 0, 0)),
        (Acknowledgement.RELEASE, (0, 1, 0)),
        (Acknowledgement.REJECT, (0, 0, 1)),
    ],
)
def test_confirmed_acknowledgements_are_counted(answer: Acknowledgement, totals: tuple[int, ...]) -> None:
    ledger = Ledger()
    ledger.delivered(A, 1.0, [delivery(0, answer)])
    assert ledger.totals == Totals()
    ledger.confirmed(A, 2.0, {})
    assert (ledger.totals.accepted, ledger.totals.released, ledger.totals.rejected) == totals
    assert ((0, 0) in ledger.finals) is (answer is not Acknowledgement.RELEASE)


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
