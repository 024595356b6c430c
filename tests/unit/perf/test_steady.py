"""Detection of the steady state, and the measurement after it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.perf.steady import Meter, Rule, Sample

RULE = Rule(least_records=1000, most_seconds=60, windows=3, window=1.0, within=0.1)


def fed(
    meter: Meter, rates: Iterable[float], at: float = 0.0, count: float = 0.0, cpu: float = 0.0
) -> Sample:
    """Adds a sample per second at these rates, each with one CPU second; returns the last."""
    sample = Sample(round(count), at, cpu)
    meter.add(sample)
    for rate in rates:
        at, count, cpu = at + 1, count + rate, cpu + 1
        sample = Sample(round(count), at, cpu)
        meter.add(sample)
    return sample


@pytest.mark.parametrize(
    ("rates", "steady"),
    [
        ([100, 100, 100], True),
        ([1, 500, 100, 95, 105], True),
        ([100, 100], False),
        ([100, 100, 111], False),
        ([100, 89, 100], False),
        ([0, 0, 0], False),
    ],
)
def test_last_windows_determine_the_steady_state(rates: list[float], steady: bool) -> None:
    assert RULE.is_steady(rates) is steady


def test_a_rising_rate_warms_up_until_it_is_flat() -> None:
    meter = Meter(RULE, seconds=3, settle=1)
    fed(meter, [100, 200, 400, 700, 900, 1000, 1000, 1000, 1000, 1000, 1000])
    assert meter.done
    assert meter.measured.steady
    assert meter.measured.rate == 1000
    assert meter.measured.warm_seconds == 7  # 900 is within a tenth


def test_rate_is_not_steady_before_the_least_records() -> None:
    meter = Meter(RULE, seconds=1, settle=1)
    fed(meter, [100] * 9)
    assert not meter.done
    assert not meter.measured.steady


def test_unsteady_rate_is_measured_after_the_time_limit_and_marked() -> None:
    meter = Meter(Rule(1000, most_seconds=10, windows=3), seconds=4, settle=1)
    fed(meter, [100, 1000] * 10)
    assert meter.done
    assert not meter.measured.steady
    assert meter.measured.records == 2200


def test_warm_up_is_not_measured() -> None:
    meter = Meter(RULE, seconds=2, settle=1)
    fed(meter, [1000] * 6)
    assert (meter.measured.records, meter.measured.seconds, meter.measured.cpu) == (2000, 2, 2)
    assert meter.measured.cpu_per_record == 1000


def test_the_time_until_the_first_record_does_not_count() -> None:
    meter = Meter(RULE, seconds=2, settle=1)
    fed(meter, [0] * 20 + [1000] * 6)
    assert meter.done
    assert meter.measured.rate == 1000


def test_first_second_of_each_pass_is_not_measured() -> None:
    meter = Meter(RULE, seconds=4, settle=2)
    last = fed(meter, [1000] * 7)  # two to settle, three to be steady, two measured
    assert (meter.measured.steady, meter.measured.seconds) == (True, 2)
    meter.begin_pass()
    fed(meter, [0, 0, 10, 500, 1000, 1000], last.at + 5, last.count, last.cpu)
    assert (meter.measured.seconds, meter.measured.records) == (4, 4000)
    assert meter.done


def test_warm_up_windows_do_not_span_two_passes() -> None:
    meter = Meter(RULE, seconds=4, settle=1)
    last = fed(meter, [1000] * 3)
    meter.begin_pass()
    fed(meter, [1000] * 2, last.at + 100, last.count)
    assert meter.measured.steady  # windows of both passes, and none of the time between
    assert meter.measured.seconds == 0


def test_latencies_and_memory_are_measured() -> None:
    meter = Meter(Rule(1, windows=1), seconds=1, settle=0)
    rates = [(0, ()), (10, (9.0,)), (20, (8.0,)), (30, (7.0,)), (40, (1.0, 2.0)), (50, (5.0,))]
    for at, (count, latencies) in enumerate(rates):
        meter.add(Sample(count, at, rss=at if at < 5 else 3, latencies=latencies))
    assert meter.measured.latencies == [7.0]
    assert meter.measured.rss == 4


def test_rate_without_measurements_is_0() -> None:
    measured = Meter(RULE, seconds=1).measured
    assert (measured.rate, measured.cpu_per_record) == (0, 0)
