from __future__ import annotations

import pytest

from sharebroker_server.flights.core.flight import Acknowledgement
from sharebroker_server.flights.core.ledger import Delivery, Ledger
from sharebroker_server.flights.core.report import add_report, confirmed, delivered

GOT = [
    Delivery(0, 5, 1, Acknowledgement.ACCEPT, "UA", "EWR-IAH", 3, -2),
    Delivery(1, 6, 2, Acknowledgement.REJECT, "AA", "JFK-MIA", 0, 0),
    Delivery(1, 7, 1, Acknowledgement.ACCEPT, "AA", "JFK-MIA", 0, 0),
]


def test_reports_reach_the_books() -> None:
    ledger = Ledger()
    add_report(delivered(4, 1.5, GOT), "w", ledger)
    assert ledger.deliveries == [(delivery, 1.5) for delivery in GOT]
    add_report(confirmed(4, 2.5, {(1, 7): True}), "w", ledger)
    assert (ledger.totals.accepted, ledger.totals.rejected) == (1, 1)
    assert ledger.finals[0, 5].at == 2.5


@pytest.mark.parametrize("line", [b"", b"nonsense\n"])
def test_nonsense_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        add_report(line, "w", Ledger())
