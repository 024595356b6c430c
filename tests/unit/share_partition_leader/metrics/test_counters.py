from __future__ import annotations

from dataclasses import dataclass

from sharebroker_server.share_partition_leader.metrics.counters import CounterRegistry


@dataclass
class Used:
    """A share-partition."""

    group_id: str
    topic: str


def none_in_use() -> list[Used]:
    return []


def test_each_group_and_topic_has_its_own_counts() -> None:
    counters = CounterRegistry(lambda: 3)
    first = counters.get("g", "a", none_in_use)
    assert counters.get("g", "a", none_in_use) is first
    assert counters.get("g", "b", none_in_use) is not first
    assert [pair for pair, _ in counters.all()] == [("g", "a"), ("g", "b"), ("other", "other")]


def test_unused_pairs_beyond_the_limit_are_merged() -> None:
    counters = CounterRegistry(lambda: 2)
    counters.get("g", "a", none_in_use).acquired = 1
    counters.get("g", "b", none_in_use).acquired = 2
    counters.get("g", "c", lambda: [Used("g", "b")]).acquired = 4
    assert {pair: counts.acquired for pair, counts in counters.all()} == {
        ("g", "b"): 2,
        ("g", "c"): 4,
        ("other", "other"): 1,
    }


def test_new_pairs_beyond_the_limit_are_counted_as_other() -> None:
    counters = CounterRegistry(lambda: 1)
    counters.get("g", "a", none_in_use)
    used = [Used("g", "a")]
    assert counters.get("g", "b", lambda: used) is counters.get("g", "c", lambda: used)
    assert [pair for pair, _ in counters.all()] == [("g", "a"), ("other", "other")]


def test_a_group_named_other_is_counted_as_other() -> None:
    counters = CounterRegistry(lambda: 10)
    counters.get("other", "other", none_in_use).acquired = 1
    assert [pair for pair, _ in counters.all()] == [("other", "other")]
