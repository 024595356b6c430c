"""The definition of growth."""

from __future__ import annotations

import pytest

from tests.soak.series import HOUR, Series, slope


def series(*values: float, slack: float = 1.0) -> Series:
    one = Series("memory", "MB", slack)
    for minute, value in enumerate(values):
        one.add(minute * 60.0, value)
    return one


@pytest.mark.parametrize(
    ("values", "grows"),
    [
        ([], False),
        ([5.0], False),
        ([10.0] * 9, False),
        ([0.0, 50.0, 99.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0], False),  # it warms up
        ([100.0, 100.0, 100.0, 103.0, 97.0, 104.0, 96.0, 103.0, 97.0], False),  # it fluctuates
        ([100.0, 100.0, 100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0], False),  # less than a tenth
        ([100.0, 100.0, 100.0, 105.0, 110.0, 115.0, 120.0, 125.0, 130.0], True),
        ([100.0, 150.0, 200.0, 250.0], False),  # too short for a statement
        ([0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], False),  # less than the slack
        ([30.0, 30.0, 30.0, 25.0, 20.0, 15.0, 10.0, 5.0, 0.0], False),
    ],
)
def test_growth_beyond_a_tenth_and_the_slack_is_reported(values: list[float], grows: bool) -> None:
    assert series(*values).grows is grows


def test_slope_is_per_hour() -> None:
    assert series(*map(float, range(9))).slope == pytest.approx(HOUR / 60)
    assert slope([(1.0, 5.0), (1.0, 7.0)]) == 0.0
