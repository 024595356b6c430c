"""The Spark offset: its JSON form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_spark.core.offsets import Batch, Range, from_json, to_json

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
    batch = Batch(session, number).next(ranges, deadline_ms)
    text = json.dumps(to_json(batch))
    again = from_json(json.loads(text))
    assert sorted(again.ranges) == sorted(batch.ranges)
    assert (again.session, again.number, again.deadline_ms) == (session, number + 1, deadline_ms)
    assert json.dumps(to_json(again)) == text
    assert again.records == batch.records


def test_json_form() -> None:
    batch = Batch("s").next([Range("b", 10, 4, 5), Range("a", 2, 7, 7, 3), Range("a", 2, 0, 3)], 99)
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
