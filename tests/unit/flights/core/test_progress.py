"""from __future__ import annotations"""

from __future__ import annotations

import pytest

from sharebroker_server.flights.core.progress import Progress, Rate


def test_line_names_every_number() -> None:
    shown = Progress(1000, 900, 5, 10, 3, 90, 1234.5).line()
    assert shown == (
        "published 1,000  accepted 900  released 5  rejected 10  locks lost 3  lag 90  records/s 1,234"
    )


def test_lag_may_be_unknown() -> None:
    assert ("lag", "-") in Progress().cells()


def test_rate_looks_at_the_last_moments() -> None:
    rate = Rate(span=2.0)
    assert rate.sample(0, 0.0) == 0.0
    assert rate.sample(100, 1.0) == pytest.approx(100.0)
    assert rate.sample(100, 2.5) == pytest.approx(0.0)
    assert rate.sample(100, 9.0) == 0.0
