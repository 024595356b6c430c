"""Deliveries and acknowledgements of a run, in any order of reports."""

from __future__ import annotations

from sharebroker_server.flights.core.flight import Acknowledgement
from sharebroker_server.flights.core.ledger import Delivery, Ledger

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
