"""The comparison of servers with and without held and waiting records: its aims, tables and checkpoint."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.events import LoadedState, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from tests.perf.compare import Comparison, Pair
from tests.perf.window import DUE, ROW_LABELS, ROWS, WAITING, below_aims, checkpoint, tables


@pytest.mark.parametrize(
    ("program", "after", "missed"),
    [("held range", 97, 0), ("held each", 96, 1), ("waiting range", 95, 0), ("waiting each", 94, 1)],
)
def test_a_rate_below_its_aim_is_reported(program: str, after: float, missed: int) -> None:
    rows = [Comparison.of(program, "rate", [Pair(100, after)])]
    rows.append(Comparison.of(program, "server_cpu", [Pair(1, 2)]))
    assert len(below_aims(rows)) == missed


def test_times_have_no_aim() -> None:
    assert below_aims([Comparison.of(DUE, "delivered", [Pair(1, 9)])]) == []


def test_each_row_has_a_table_with_its_sides() -> None:
    rows = [
        Comparison.of(program, "delivered" if program == DUE else "rate", [Pair(100, 90)])
        for program in ROW_LABELS
    ]
    parts = tables(rows).split("\n\n")
    assert len(parts) == len(ROWS) + 1
    for part, row in zip(parts, ROWS.values(), strict=False):
        assert all(head in part.splitlines()[0] for head in row.heads)


def test_the_checkpoint_has_as_many_runs_as_a_share_partition_may_have() -> None:
    most = SharePartitionSettings().max_runs
    share = SharePartition(
        SharePartitionSettings(), LoadedState(0, 1, 0, checkpoint(most, 10**15).state_batches)
    )
    assert len(share.in_flight.runs) == most
    assert share.in_flight.waiting == WAITING
