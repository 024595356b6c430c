"""The benchmark of dead letters: its aims and tables."""

from __future__ import annotations

import os

import pytest

from tests.perf.compare import Comparison, Pair
from tests.perf.dead_letters import PACE, ROW_LABELS, ROWS, Flood, below_aims, sampled, tables

MIB = 1 << 20


@pytest.mark.parametrize(
    ("program", "after", "missed"),
    [("idle range", 97, 0), ("idle each", 96, 1), ("away each", 90, 0), ("away each", 89, 1)],
)
def test_a_rate_below_its_aim_is_reported(program: str, after: float, missed: int) -> None:
    rows = [Comparison.of(program, "rate", [Pair(100, after)])]
    rows.append(Comparison.of(program, "server_cpu", [Pair(1, 2)]))
    assert len(below_aims(rows)) == missed


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


def test_the_memory_of_a_process_is_sampled_at_both_ends() -> None:
    with sampled(os.getpid()) as samples:
        pass
    assert len(samples) >= 2
    assert min(samples) > MIB


def test_each_row_has_a_table_with_its_sides() -> None:
    rows = [Comparison.of(program, "rate", [Pair(100, 90)]) for program in ROW_LABELS]
    parts = tables(rows).split("\n\n")
    assert len(parts) == len(ROWS)
    for part, row in zip(parts, ROWS.values(), strict=True):
        assert all(head in part.splitlines()[0] for head in row.heads)
