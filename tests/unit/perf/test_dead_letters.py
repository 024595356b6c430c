"""The benchmark of dead letters: the flood."""

from __future__ import annotations

import os

import pytest

from tests.perf.dead_letters import AWAY_AIM, AWAY_PACE, PACE, Absence, Flood, sampled

MIB = 1 << 20


@pytest.mark.parametrize(
    ("rate", "memory", "missed"),
    [
        (PACE, [100, 200, 200, 210, 220, 230], 0),
        (PACE, [100, 200, 200, 210, 220, 240], 1),
        (0.95 * PACE, [100], 0),
        (0.94 * PACE, [100], 1),
        (0.94 * PACE, [100, 100, 200], 2),
    ],
)
def test_a_flood_must_keep_its_rate_and_its_memory(rate: float, memory: list[int], missed: int) -> None:
    assert len(Flood(rate, 1.0, [size * MIB for size in memory]).missed) == missed


@pytest.mark.parametrize(("kept", "missed"), [(1.0, 0), (AWAY_AIM, 0), (0.99 * AWAY_AIM, 1)])
def test_other_records_must_keep_their_rate_without_the_topic(kept: float, missed: int) -> None:
    assert len(Absence(kept * AWAY_PACE, 1, 1.0, [MIB]).missed) == missed


def test_the_memory_of_a_process_is_sampled_at_both_ends() -> None:
    with sampled(os.getpid()) as samples:
        pass
    assert len(samples) >= 2
    assert min(samples) > MIB
