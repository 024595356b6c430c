from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.hot_cache import HotCache, select_batches
from tests.unit.record_log.batches import stored

SIZE = len(stored(0).data)


def filled(limit: int = 100 * SIZE, first: int = 10, batches: int = 4) -> HotCache:
    """Batches of three records from offset `first` on."""
    tail = HotCache(limit, first)
    for i in range(batches):
        tail.add(stored(first + 3 * i))
    return tail


def bases(tail: HotCache, offset: int, max_bytes: int = 10**9) -> list[int] | None:
    batches = tail.read(offset, max_bytes)
    return None if batches is None else [batch.base_offset for batch in batches]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (9, None),
        (10, [10, 13, 16, 19]),
        (12, [10, 13, 16, 19]),
        (13, [13, 16, 19]),
        (21, [19]),
        (22, []),
    ],
)
def test_read_begins_with_the_batch_that_contains_the_offset(offset: int, expected: list[int] | None) -> None:
    assert bases(filled(), offset) == expected


@pytest.mark.parametrize(
    ("max_bytes", "count"), [(0, 1), (1, 1), (SIZE, 1), (2 * SIZE - 1, 1), (2 * SIZE, 2), (10 * SIZE, 4)]
)
def test_read_returns_what_fits_but_at_least_one(max_bytes: int, count: int) -> None:
    assert len(filled().read(10, max_bytes) or []) == count


def test_oldest_go_when_the_limit_is_passed() -> None:
    tail = filled(limit=2 * SIZE)
    assert (tail.start, tail.end, tail.size) == (16, 22, 2 * SIZE)
    assert bases(tail, 15) is None
    assert bases(tail, 16) == [16, 19]


def test_newest_batch_stays_even_when_too_large() -> None:
    tail = filled(limit=1)
    assert bases(tail, 19) == [19]
    assert bases(tail, 18) is None


def test_read_inside_a_gap_finds_the_next_batch() -> None:
    tail = HotCache(10**6, 0)
    tail.add(stored(0))
    tail.add(stored(100))
    assert bases(tail, 50) == [100]
    assert tail.floor(50) == 50


@pytest.mark.parametrize(("offset", "floor"), [(10, 10), (12, 10), (13, 13), (15, 13), (21, 19), (22, 22)])
def test_floor_is_the_batch_boundary_below(offset: int, floor: int) -> None:
    assert filled().floor(offset) == floor


def test_floor_beyond_the_last_batch_is_the_end() -> None:
    assert filled().floor(30) == 22
    assert HotCache(1, 7).floor(7) == 7


@pytest.mark.parametrize(
    ("offset", "left"),
    [(10, [10, 13, 16, 19]), (12, [10, 13, 16, 19]), (13, [13, 16, 19]), (22, []), (99, [])],
)
def test_drop_before_keeps_the_batch_that_contains_the_offset(offset: int, left: list[int]) -> None:
    tail = filled()
    tail.drop_before(offset)
    assert bases(tail, tail.start) == left
    assert tail.size == SIZE * len(left)
    tail.add(stored(22))
    assert bases(tail, 22) == [22]


def test_take_of_nothing() -> None:
    assert select_batches([], 0, 10) == []
