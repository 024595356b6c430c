"""Streams with unfinished messages end when the memory of the process has grown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharebroker_server.rpc.stream_memory import (
    INTERVAL,
    UNWATCHED,
    Growth,
    Pending,
    StreamMemory,
    StreamRead,
    victims,
)
from tests.testkit.waiting import eventually

MIB = 1 << 20
LIMIT = 100 * MIB


class Read:
    """A stream that awaits a message; `ended` is whether the server ended it."""

    def __init__(self, memory: StreamMemory | None = None) -> None:
        self.ended = False
        self._memory = memory

    def end(self) -> None:
        self.ended = True
        if self._memory is not None:
            self._memory.discard(self)


def test_growth_beyond_the_limit_is_detected_from_the_first_comparison_on() -> None:
    growth = Growth(LIMIT)
    assert [growth.exceeds(size * MIB) for size in (500, 590, 620, 560)] == [False, False, True, False]


def test_the_baseline_falls_at_once_and_rises_slowly() -> None:
    growth = Growth(LIMIT)
    assert [growth.exceeds(size * MIB) for size in (500, 200, 290, 310)] == [False, False, False, True]
    slow = Growth(LIMIT)
    assert not any(slow.exceeds(500 * MIB + step * (90 << 10)) for step in range(10_000))


@pytest.mark.parametrize(
    ("peers", "ended"),
    [
        ("aaaabb", [3, 2]),  # half of those of the connection with the most, newest first
        ("abababab", [7, 5]),
        ("abcdefgh", [7, 6]),  # else a quarter of all
        ("aab", [2]),
        ("abcdEFGH", [3]),  # those of capital letters have just received a message
        ("aaaaBBBBBB", [3, 2]),
        ("AAAA", [3, 2]),
    ],
)
def test_newest_silent_streams_of_the_connection_with_the_most_end(peers: str, ended: list[int]) -> None:
    reads = [Read() for _ in peers]
    since = [100.0 if peer.islower() else 100.0 + INTERVAL for peer in peers]
    pending: dict[StreamRead, Pending] = dict(zip(reads, map(Pending, peers.lower(), since), strict=True))
    found = victims(pending, 100.0 + INTERVAL * 1.5)
    assert [reads.index(read) for read in found if isinstance(read, Read)] == ended


async def test_streams_end_while_the_memory_is_too_large() -> None:
    resident, trimmed = 500 * MIB, 0

    def trim() -> None:
        nonlocal trimmed
        trimmed += 1

    memory = StreamMemory(LIMIT, lambda: resident, trim)
    reads = [Read() for _ in range(UNWATCHED + 4)]
    for read in reads:
        memory.add(read, "connection")
    resident = 700 * MIB
    await eventually(lambda: any(read.ended for read in reads))
    assert not any(read.ended for read in reads[:6])
    assert trimmed
    for read in reads:
        memory.discard(read)


async def test_memory_that_streams_do_not_use_is_the_new_baseline() -> None:
    resident, comparisons = 500 * MIB, 0

    def current() -> int:
        nonlocal comparisons
        comparisons += 1
        return resident

    memory = StreamMemory(LIMIT, current, lambda: None)
    reads = [Read(memory) for _ in range(UNWATCHED + 4)]
    for read in reads:
        memory.add(read, "connection")
    resident = 700 * MIB
    await eventually(lambda: sum(not read.ended for read in reads) <= UNWATCHED)
    await _compared(lambda: comparisons)
    later = [Read(memory) for _ in range(UNWATCHED + 4)]
    for read in later:
        memory.add(read, "connection")
    await _compared(lambda: comparisons)
    assert not any(read.ended for read in later)


async def _compared(comparisons: Callable[[], int]) -> None:
    """Waits for a few comparisons."""
    seen = comparisons()
    await eventually(lambda: comparisons() >= seen + 4)


async def test_memory_that_the_allocator_returns_is_not_growth() -> None:
    resident, trimmed = 500 * MIB, 0

    def trim() -> None:
        nonlocal resident, trimmed
        trimmed += resident > 500 * MIB
        resident = 500 * MIB

    memory = StreamMemory(LIMIT, lambda: resident, trim)
    reads = [Read() for _ in range(UNWATCHED + 1)]
    for read in reads:
        memory.add(read, "connection")
    resident = 700 * MIB
    await eventually(lambda: trimmed)
    assert not any(read.ended for read in reads)


async def test_few_streams_are_not_watched() -> None:
    comparisons = 0

    def resident() -> int:
        nonlocal comparisons
        comparisons += 1
        return comparisons * 1000 * MIB

    memory = StreamMemory(LIMIT, resident, lambda: None)
    for _ in range(UNWATCHED):
        memory.add(Read(), "connection")
    assert comparisons == 0
