"""Comparison of two checkouts: ratios of pairs, and the definition of a slower row."""

from __future__ import annotations

import pytest

from tests.perf.compare import (
    FIGURES,
    GRPC,
    KAFKA,
    LABELS,
    LOGIC,
    MORE,
    Comparison,
    Found,
    Pair,
    add_pair,
    chosen,
    comparisons,
    short,
    table,
)


def test_the_ratio_is_the_median_of_the_pairs_ratios() -> None:
    pairs = [Pair(100, 110), Pair(200, 180), Pair(50, 50), Pair(10, 30), Pair(100, 95)]
    row = Comparison.of("producer", "rate", pairs)
    assert (row.before, row.after, row.ratio, row.lowest, row.highest) == (100, 95, 1.0, 0.9, 3.0)


def test_a_pair_without_a_figure_before_has_no_ratio() -> None:
    row = Comparison.of("producer", "server_cpu", [Pair(0, 3), Pair(2, 3)])
    assert row.ratio == 1.5


@pytest.mark.parametrize(
    ("figure", "after", "slower"),
    [
        ("rate", 95.0, False),
        ("rate", 94.9, True),
        ("rate", 200.0, False),
        ("rate", 0.0, True),
        ("p50", 105.0, False),
        ("p50", 105.1, True),
        ("p50", 50.0, False),
        ("server_cpu", 106.0, True),
        ("p99", 200.0, False),
    ],
)
def test_row_is_slower_beyond_five_percent(figure: str, after: float, slower: bool) -> None:
    assert Comparison.of("commit", figure, [Pair(100.0, after)]).slower is slower


def test_times_are_compared_only_with_one_request_in_flight() -> None:
    assert not Comparison.of("publish", "p50", [Pair(100.0, 200.0)]).slower


def test_only_figures_of_both_sides_make_a_pair() -> None:
    found: Found = {}
    add_pair(found, "each", {"before": {"rate": 1.0, "p50": 2.0}, "after": {"rate": 3.0, "rss": 4.0}})
    add_pair(found, "each", {"before": {"rate": 5.0}, "after": {"rate": 6.0}})
    assert found == {("each", "rate"): [Pair(1, 3), Pair(5, 6)]}


def test_table_has_one_row_per_figure() -> None:
    found: Found = {("producer", "rate"): [Pair(500_000, 400_000)], ("commit", "p50"): [Pair(0.5, 0.4)]}
    lines = table(comparisons(found)).splitlines()
    assert lines[2:] == [
        f"| {LABELS['producer']}, records/s | 500,000 | 400,000 | 0.800 | 0.80 to 0.80 | **slower** |",
        "| commitSync of a poll, p50, ms | 0.50 | 0.40 | 0.800 | 0.80 to 0.80 |  |",
    ]


def test_consuming_cases_require_the_publish_case() -> None:
    assert chosen(["each"], with_kafka=True) == ["publish", "each"]
    assert chosen(["publish", "single1"], with_kafka=True) == ["publish", "single1"]
    assert chosen(["single1"], with_kafka=True) == ["single1"]
    assert chosen([], with_kafka=False) == [LOGIC, *GRPC]
    assert chosen([], with_kafka=True) == [LOGIC, *GRPC, *KAFKA]
    assert chosen(["idle", *MORE], with_kafka=True) == ["idle", *MORE]
    assert chosen(["idle", *MORE], with_kafka=False) == []


@pytest.mark.parametrize(
    ("key", "name"),
    [("each.ack_p50", "p50"), ("each.rate", "rate"), ("partitions.1000", "rate"), ("logic.write", "write")],
)
def test_figure_names_omit_their_case(key: str, name: str) -> None:
    assert short(key) == name


def test_every_program_has_a_label() -> None:
    assert {LOGIC, *GRPC, *KAFKA, *MORE} <= LABELS.keys()
    assert FIGURES.keys() >= {"rate", "server_cpu"}
