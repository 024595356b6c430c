"""Offset spans beside the sets of their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.offset_spans import Span, intersection, joined, split_by_spans

ENDS = st.lists(st.integers(0, 40), max_size=10, unique=True).map(sorted)
DISJOINT = ENDS.map(lambda ends: list(zip(ends[::2], ends[1::2], strict=False)))
ANY = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=10).map(
    lambda pairs: sorted((first, first + more) for first, more in pairs)
)


def offsets(spans: Iterable[Span]) -> list[int]:
    return [offset for first, last in spans for offset in range(first, last + 1)]


@given(ANY)
def test_joined_spans_have_the_same_offsets_and_do_not_touch(spans: list[Span]) -> None:
    found = joined(spans)
    assert offsets(found) == sorted(set(offsets(spans)))
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(found))


@given(DISJOINT, DISJOINT)
def test_an_intersection_has_the_offsets_of_both(left: list[Span], right: list[Span]) -> None:
    assert offsets(intersection(left, right)) == sorted({*offsets(left)} & {*offsets(right)})


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
