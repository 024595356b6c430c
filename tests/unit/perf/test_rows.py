"""Comparisons of two equal servers: aims, tables, and a pair in which a program fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.perf import dead_letters, slices, window
from tests.perf.compare import Comparison, Pair, Side
from tests.perf.processes import BenchFailed
from tests.perf.rows import Pairs, Row, Rows, below_aims, expected, labels, tables

ALL = [window.ROWS, dead_letters.ROWS]


@pytest.mark.parametrize("rows", ALL)
def test_a_rate_below_its_aim_is_reported(rows: Rows) -> None:
    for program in labels(rows):
        name = program.split()[0]
        aim = 100 * rows[name].aim
        cpu = Comparison.of(program, "server_cpu", [Pair(1, 2)])
        assert below_aims(rows, [cpu, Comparison.of(program, "rate", [Pair(100, aim)])]) == []
        if aim:
            (missed,) = below_aims(rows, [cpu, Comparison.of(program, "rate", [Pair(100, aim - 1)])])
            assert f", {name}: {aim / 100 - 0.01:.3f} is below" in missed


@pytest.mark.parametrize("rows", ALL)
def test_each_row_has_a_table_with_its_sides(rows: Rows) -> None:
    found = [Comparison.of(program, "rate", [Pair(100, 90)]) for program in labels(rows)]
    parts = tables(rows, found).split("\n\n")
    for part, row in zip(parts, rows.values(), strict=True):
        assert all(head in part.splitlines()[0] for head in row.heads)
        assert len(part.splitlines()) == 2 + len(row.cases)


class Half:
    """A server that is slower on one side, and cannot run one program."""

    def __init__(self, side: Side) -> None:
        self.rate = 100.0 if side == "before" else 50.0

    def run(self, name: str, _: int) -> dict[str, float]:
        if name == "row broken":
            raise BenchFailed("no client")
        return {"rate": self.rate, "records": 10.0}


@contextmanager
def started(side: Side, _: Path) -> Iterator[Half]:
    yield Half(side)


def test_pairs_compare_both_sides_and_report_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slices, "settle", lambda: None)
    rows = {"row": Row(("a", "b", "b / a"), 0.9, {"works": "A program", "broken": "Another"})}
    found, failures = Pairs(rows, started).run(2, 30.0)
    assert [(one.program, one.ratio) for one in found] == [("row works", 0.5)]
    assert failures == [f"pair {number}, row broken: no client" for number in (1, 2)]
    assert below_aims(rows, found) == ["A program, row: 0.500 is below 0.9"]
    printed = capsys.readouterr()
    assert "time to expect: 60 seconds" in printed.err
    assert "| A program, records/s | 100.00 | 50.00 | 0.500 |" in printed.out


def test_the_expected_time_is_in_minutes_from_two_on() -> None:
    assert expected(1, 119.0) == "119 seconds"
    assert expected(5, 204.0) == "17 minutes"
