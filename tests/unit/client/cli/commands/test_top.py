"""Rates between two samples of groups and log ends."""

from __future__ import annotations

from rich.console import Console

from sharebroker.cli.commands import top
from sharebroker.cli.commands.top import TopSample, document, finished, rate
from sharebroker.cli.group_overview import GroupOverview
from sharebroker_protocol.model import TopicPartition
from tests.testkit.tables import each

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def group(group_id: str, lags: dict[TopicPartition, int] | None) -> GroupOverview:
    return GroupOverview(group_id, "share", "Stable", 1, lags, 0, 0, None)


BEFORE = TopSample(100.0, {A0: 10, A1: 20, B0: 5}, (group("g", {A0: 4, A1: 4}), group("h", None)))
AFTER = TopSample(102.0, {A0: 30, A1: 20, B0: 105}, (group("g", {A0: 8, A1: 0}), group("h", None)))


def test_rates_between_two_samples() -> None:
    found = document(BEFORE, AFTER)
    assert [(row["topic"], row["end_offsets"], row["published_per_s"]) for row in found["topics"]] == [
        ("b", 105, 50.0),
        ("a", 50, 10.0),
    ]
    assert [(row["group"], row["lag"], row["finished_per_s"]) for row in found["groups"]] == [
        ("g", 8, 10.0),
        ("h", None, 0.0),
    ]


def test_first_sample_has_no_rates() -> None:
    found = document(None, AFTER)
    assert {row["published_per_s"] for row in found["topics"]} == {None}
    assert {row["finished_per_s"] for row in found["groups"]} == {None}


def test_new_and_reset_partitions_count_from_the_next_sample() -> None:
    before = TopSample(100.0, {A0: 50}, (group("g", {A0: 0}),))
    after = TopSample(101.0, {A0: 40, A1: 1_000}, (group("g", {A0: 0, A1: 0}),))
    found = document(before, after)
    assert found["topics"][0]["published_per_s"] == 0.0
    assert found["groups"][0]["finished_per_s"] == 0.0


def test_finished_position_needs_both_end_and_lag() -> None:
    assert finished({A0: 10, B0: 3}, group("g", {A0: 4, A1: 1})) == {A0: 6}
    assert finished({A0: 10}, group("g", None)) == {}


@each("records, seconds, expected", [(5, 2.0, 2.5), (1, 3.0, 0.3), (5, None, None), (5, 0.0, None)])
def test_rate_has_one_decimal(records: int, seconds: float | None, expected: float | None) -> None:
    assert rate(records, seconds) == expected


def test_view_has_groups_above_topics() -> None:
    shown = Console(width=120)
    with shown.capture() as captured:
        shown.print(top._view(document(BEFORE, AFTER)))
    text = captured.get()
    assert "groups: 2, lag 8   topics: 2, 60 records/s" in text
    assert text.index("FINISHED/S") < text.index("PUBLISHED/S")
