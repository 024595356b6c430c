"""The default memory limit of the embedded Valkey, and its use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sharebroker_server.redis_link.memory import (
    SERVER_MINIMUM,
    SMALLEST_LIMIT,
    MemorySample,
    MemoryUse,
    default_limit,
)

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("memory", "processes", "limit"),
    [
        (128 * MIB, 1, 32 * MIB),
        (700 * MIB, 1, 222 * MIB),
        (GIB, 1, 384 * MIB),
        (GIB, 4, 32 * MIB),
        (8 * GIB, 1, 3 * GIB),
        (8 * GIB, 8, 3 * GIB),
        (8 * GIB, 16, 2 * GIB),
        (64 * GIB, 1, 24 * GIB),
    ],
)
def test_default_limits(memory: int, processes: int, limit: int) -> None:
    assert default_limit(memory, processes) == limit


@given(st.integers(min_value=1, max_value=64), st.integers(min_value=2 * SMALLEST_LIMIT, max_value=1 << 45))
def test_data_its_copy_and_the_server_fit_into_memory(processes: int, spare: int) -> None:
    minimum = SERVER_MINIMUM * processes
    memory = minimum + spare
    assert 2 * default_limit(memory, processes) + max(memory // 4, minimum) <= memory


def info(used: int, rejections: int = 0, uncounted: int = 0) -> bytes:
    lines = [f"used_memory:{used}", f"mem_not_counted_for_evict:{uncounted}"]
    lines += [f"errorstat_OOM:count={rejections}"] if rejections else []
    return "\r\n".join(["# Memory", *lines, ""]).encode()


@pytest.mark.parametrize(
    ("lines", "sample"),
    [
        ("maxmemory:90\r\ntotal_system_memory:100", MemorySample(3, 90)),
        ("maxmemory:0\r\ntotal_system_memory:100", MemorySample(3, 100)),
        ("", MemorySample(3, 0)),
    ],
)
def test_a_sample_has_the_memory_that_counts_and_its_limit(lines: str, sample: MemorySample) -> None:
    assert MemorySample.from_info(info(5, uncounted=2) + lines.encode()) == sample


REACHED, BELOW = "memory limit reached; rejecting records", "memory below its limit; accepting records"


@pytest.mark.parametrize(
    ("samples", "events"),
    [
        ([(999, 0), (1010, 0)], []),
        ([(990, 1), (990, 1), (990, 5)], [REACHED]),
        ([(990, 1), (951, 1), (940, 2), (949, 2), (960, 2)], [REACHED, BELOW]),
        ([(990, 7), (900, 7), (990, 8)], [REACHED, BELOW, REACHED]),
        ([(990, 7), (900, 0), (990, 1)], [REACHED, BELOW, REACHED]),  # a restart resets the count
    ],
)
def test_rejections_are_logged_once_until_memory_falls(
    samples: list[tuple[int, int]], events: list[str]
) -> None:
    memory = MemoryUse(1000)
    with capture_logs() as lines:
        for used, rejections in samples:
            memory.observe(info(used, rejections))
    assert [line["event"] for line in lines] == events


def test_rejections_for_lack_of_disk_do_not_count() -> None:
    memory = MemoryUse(1000)
    with capture_logs() as lines:
        memory.observe(info(500, 3), disk_full=True)
        memory.observe(info(500, 3))
    assert not lines


def test_buffers_that_valkey_does_not_count_are_not_counted() -> None:
    memory = MemoryUse(1000)
    memory.observe(info(1500, uncounted=700))
    assert memory.used == 800


def test_memory_without_a_limit_is_never_full() -> None:
    memory = MemoryUse(0)
    with capture_logs() as lines:
        memory.observe(info(1 << 40))
    assert not lines
    assert {family.name: [s.value for s in family.samples] for family in memory.families()} == {
        "sharebroker_embedded_memory_bytes": [1 << 40],
        "sharebroker_embedded_memory_limit_bytes": [0],
    }
