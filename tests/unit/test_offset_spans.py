"""Overlaps of two lists of offset spans."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.offset_spans import split_by_spans

ENDS = st.lists(st.integers(0, 40), max_size=10, unique=True).map(sorted)


@given(st.integers(0, 40), st.integers(0, 20), ENDS)
def test_every_offset_is_in_one_overlap_with_its_span(first: int, more: int, ends: list[int]) -> None:
    over = list(zip(ends[::2], ends[1::2], strict=False))
    found = list(split_by_spans(first, first + more, over))
    assert [(x, index) for a, b, index in found for x in range(a, b + 1)] == [
        (x, next((n for n, (a, b) in enumerate(over) if a <= x <= b), None))
        for x in range(first, first + more + 1)
    ]
    indices = [index for _, _, index in found]
    assert all(one != other for one, other in pairwise(indices))
