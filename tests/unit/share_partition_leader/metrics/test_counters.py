from __future__ import annotations

from dataclasses import dataclass

from sharebroker_server.share_partition_leader.metrics.counters import Tallies


@dataclass
class Used:
    """A share-partition."""

    group_id: str
    topic: str


def nobody() -> list[Used]:
    return []


def test_each_group_and_topic_has_its_own() -> None:
    tallies = Tallies(lambda: 3)
    first = tallies.of("g", "a", nobody)
    assert tallies.of("g", "a", nobody) is first
    assert tallies.of("g", "b", nobody) is not first
    assert [pair for pair, _ in tallies.all()] == [("g", "a"), ("g", "b"), ("other", "other")]


def test_where_there_is_no_room_those_out_of_use_are_counted_together() -> None:
    tallies = Tallies(lambda: 2)
    tallies.of("g", "a", nobody).acquired = 1
    tallies.of("g", "b", nobody).acquired = 2
    tallies.of("g", "c", lambda: [Used("g", "b")]).acquired = 4
    assert {pair: counts.acquired for pair, counts in tallies.all()} == {
        ("g", "b"): 2,
        ("g", "c"): 4,
        ("other", "other"): 1,
    }


def test_where_all_are_in_use_the_next_ones_are_counted_together() -> None:
    tallies = Tallies(lambda: 1)
    tallies.of("g", "a", nobody)
    used = [Used("g", "a")]
    assert tallies.of("g", "b", lambda: used) is tallies.of("g", "c", lambda: used)
    assert [pair for pair, _ in tallies.all()] == [("g", "a"), ("other", "other")]


def test_a_group_may_be_called_as_the_rest_is() -> None:
    tallies = Tallies(lambda: 10)
    tallies.of("other", "other", nobody).acquired = 1
    assert [pair for pair, _ in tallies.all()] == [("other", "other")]
