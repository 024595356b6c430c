from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sharebroker_server.telemetry.metrics import (
    MICROSECOND,
    YIELD,
    Family,
    Histogram,
    Kind,
    Metrics,
    Sample,
    counter,
    gauge,
    lines,
    number,
    seconds_of,
)


def read(*families: Family) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus's own parser reads in our text, by name and labels."""
    text = "".join(line for family in families for line in lines(family))
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_label_may_hold_anything() -> None:
    said = 'a "quoted" \\ back\nslash, {brace}='
    assert read(gauge("some", 'with \\ and\nline "end"', [(("group", said), 2)])) == {
        ("some", (("group", said),)): 2
    }


def test_numbers_are_exported_unchanged() -> None:
    told = read(gauge("one", "", [((), 1.5)]), counter("two_total", "", [((), 10**15)]))
    assert told == {("one", ()): 1.5, ("two_total", ()): 10**15}


@pytest.mark.parametrize(
    ("value", "told"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (3.0, "3"), (0.000128, "0.000128")]
)
def test_a_number_s_text(value: float, told: str) -> None:
    assert number(value) == told


def test_a_histogram_counts_by_powers_of_two() -> None:
    histogram = Histogram()
    for value in (0, 1, 2, 3, 4, 1000):
        histogram.add(value)
    samples = list(histogram.samples(("log", "x"), low=1, high=3))
    assert [(s.suffix, s.labels[2:], s.value) for s in samples] == [
        ("_bucket", ("le", "2"), 2),
        ("_bucket", ("le", "4"), 4),
        ("_bucket", ("le", "8"), 5),
        ("_bucket", ("le", "+Inf"), 6),
        ("_sum", (), 1010),
        ("_count", (), 6),
    ]


def test_durations_are_exported_in_seconds() -> None:
    histogram = Histogram()
    histogram.add_seconds(0.0005)
    histogram.add_seconds(-1.0)  # a clock that went back
    told = read(seconds_of("took_seconds", "help", "log", {"a": histogram}, low=9, high=9))
    assert told == {
        ("took_seconds_bucket", (("log", "a"), ("le", "0.000512"))): 2,
        ("took_seconds_bucket", (("log", "a"), ("le", "+Inf"))): 2,
        ("took_seconds_sum", (("log", "a"),)): pytest.approx(500 * MICROSECOND),
        ("took_seconds_count", (("log", "a"),)): 2,
    }


def test_yield_markers_are_not_exported() -> None:
    family = Family("some", Kind.GAUGE, "", [YIELD, Sample((), 1), YIELD])
    assert list(lines(family))[1:] == ["", "some 1\n", ""]


def test_collectors_are_read_at_each_scrape_in_order() -> None:
    metrics, values = Metrics(), [1]

    def first() -> Iterable[Family]:
        yield gauge("first", "", [((), values[0])])

    metrics.add(first)
    metrics.add(lambda: [gauge("second", "", [])])
    assert read(*metrics.families()) == {("first", ()): 1}
    values[0] = 2
    assert [family.name for family in metrics.families()] == ["first", "second"]
    assert read(*metrics.families()) == {("first", ()): 2}
