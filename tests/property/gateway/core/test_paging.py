"""Concatenated pages contain every partition once, in order, and no page exceeds its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.core.paging import PagePosition, page

TOPICS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), max_size=6)


@given(TOPICS, st.integers(1, 12))
def test_pages_cover_every_partition_once(topics: dict[str, int], limit: int) -> None:
    seen: list[tuple[str, int]] = []
    named: set[str] = set()
    start: PagePosition | None = PagePosition("", 0)
    while start is not None:
        rest = [(name, topics[name]) for name in sorted(topics) if name >= start.topic]
        found, following = page(rest, start, limit)
        got = [(name, partition) for name, taken in found for partition in taken]
        assert len(got) <= limit
        assert following is None or len(got) == limit
        seen += got
        named |= {name for name, _ in found}
        start = following
    assert seen == [(name, partition) for name in sorted(topics) for partition in range(topics[name])]
    assert named == topics.keys()


@given(TOPICS, st.sampled_from("abcdefgh"), st.integers(0, 12))
def test_page_begins_at_its_cursor(topics: dict[str, int], topic: str, partition: int) -> None:
    rest = [(name, topics[name]) for name in sorted(topics) if name >= topic]
    found, following = page(rest, PagePosition(topic, partition), 1000)
    assert following is None
    got = [(name, index) for name, taken in found for index in taken]
    assert got == [(n, i) for n, count in rest for i in range(count) if n > topic or i >= partition]
