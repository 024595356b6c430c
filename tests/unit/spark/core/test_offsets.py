"""The Spark offset: its JSON form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_spark.core.offsets import (
    PlannedBatch,
    Range,
    from_json,
    split_into_tasks,
    to_json,
    unreached,
)
from sharebroker_spark.core.options import OptionError, snapshot

NAMED = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


RANGES = st.lists(
    st.builds(
        lambda topic, partition, first, size, count: Range(topic, partition, first, first + size, count),
        NAMED,
        st.integers(0, 5),
        st.integers(0, 2**62),
        st.integers(0, 40),
        st.integers(1, 9),
    ),
    max_size=8,
)


@given(NAMED, st.integers(0, 2**40), RANGES, st.integers(0, 2**45))
def test_an_offset_survives_sparks_checkpoint(
    session: str, number: int, ranges: list[Range], deadline_ms: int
) -> None:
    batch = PlannedBatch(session, number).next(ranges, deadline_ms)
    text = json.dumps(to_json(batch))
    again = from_json(json.loads(text))
    assert sorted(again.ranges) == sorted(batch.ranges)
    assert (again.session, again.number, again.deadline_ms) == (session, number + 1, deadline_ms)
    assert json.dumps(to_json(again)) == text
    assert again.records == batch.records


def test_offset_has_a_stable_json_form() -> None:
    batch = PlannedBatch("s").next([Range("b", 10, 4, 5), Range("a", 2, 7, 7, 3), Range("a", 2, 0, 3)], 99)
    assert json.dumps(to_json(batch)) == (
        '{"v": 1, "s": "s", "n": 1, "d": 99, '
        '"r": {"a": {"2": [[0, 3, 1], [7, 7, 3]]}, "b": {"10": [[4, 5, 1]]}}}'
    )


@pytest.mark.parametrize(
    "offset",
    [
        {},
        None,
        {"v": 2, "s": "s", "n": 1, "d": 0, "r": {}},
        {"v": 1, "n": 1, "d": 0, "r": {}},
        {"v": 1, "s": "s", "n": "x", "d": 0, "r": {}},
        {"v": 1, "s": "s", "n": 1, "d": 0, "r": []},
        {"v": 1, "s": "s", "n": 1, "d": 0, "r": {"t": {"0": [[1, 2]]}}},
    ],
)
def test_offset_of_another_version_is_rejected(offset: Any) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        from_json(offset)


@given(RANGES, st.integers(1, 50), st.integers(1, 12))
def test_every_offset_is_in_one_task(ranges: list[Range], per_task: int, least: int) -> None:
    tasks = split_into_tasks(ranges, per_task, least)
    offsets = [
        (o.topic, o.partition, x, o.delivery_count) for o in ranges for x in range(o.first, o.last + 1)
    ]
    assert [
        (o.topic, o.partition, x, o.delivery_count)
        for task in tasks
        for o in task
        for x in range(o.first, o.last + 1)
    ] == offsets
    sizes = [sum(one.size for one in task) for task in tasks]
    assert all(0 < size <= per_task for size in sizes)
    assert len(tasks) >= min(least, len(offsets))
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("per_task", "least", "sizes"),
    [(100, 1, [10]), (5, 1, [5, 5]), (4, 1, [4, 3, 3]), (100, 4, [3, 3, 2, 2]), (100, 30, [1] * 10)],
)
def test_number_of_tasks_is_limited_and_balanced(per_task: int, least: int, sizes: list[int]) -> None:
    ranges = [Range("t", 0, 0, 6), Range("t", 1, 5, 7)]
    assert [sum(one.size for one in task) for task in split_into_tasks(ranges, per_task, least)] == sizes


def test_empty_batch_has_no_tasks() -> None:
    assert split_into_tasks([], 10, 4) == []


def test_available_now_plans_up_to_the_log_ends() -> None:
    ends = {("t", 0): 10, ("t", 1): 10, ("t", 2): 10}
    ranges = [Range("t", 0, 0, 8), Range("t", 1, 5, 9), Range("u", 2, 0, 99)]
    assert unreached(ends, ranges) == {("t", 0): 10, ("t", 2): 10}
    assert unreached(ends, [Range("t", 0, 20, 25)]) == {("t", 1): 10, ("t", 2): 10}
    assert unreached({}, ranges) == {}


def test_table_has_all_records_or_the_requested_ranges() -> None:
    spans = {("t", 1): (5, 9), ("t", 0): (0, 3), ("u", 0): (4, 4)}
    assert snapshot(spans, {}, {}) == [Range("t", 0, 0, 2), Range("t", 1, 5, 8)]
    ranges = snapshot(spans, {("t", 1): 2, ("t", 0): 3}, {("t", 1): 7, ("u", 0): 4})
    assert ranges == [Range("t", 1, 2, 6)]
    with pytest.raises(OptionError, match="names t-2"):
        snapshot(spans, {}, {("t", 2): 1})
    with pytest.raises(OptionError, match="starts t-0 at 4, beyond its end 3"):
        snapshot(spans, {("t", 0): 4}, {})
    with pytest.raises(OptionError, match="endingOffsets ends u-0 at 6, beyond its log end 4"):
        snapshot(spans, {}, {("u", 0): 6})
    assert snapshot(spans, {}, {("t", 1): 4}) == [Range("t", 0, 0, 2)]  # retention may come first
