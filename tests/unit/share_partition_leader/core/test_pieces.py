"""Ranges cut into parts that fare alike."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.record_states import RecordStates
from tests.unit.share_partition_leader.core.support import RELEASE, ack, fetch, opened


def _window() -> RecordStates:
    """10-19 acquired, 20-29 not in the log, 30-34 acquired, 35 available, 36-39 acquired."""
    share = opened(10)
    fetch(share, "10-19")
    fetch(share, "30-39")
    ack(share, "35", RELEASE)
    return share


@pytest.mark.parametrize(
    ("first", "last", "pieces"),
    [
        pytest.param(12, 12, "12-12", id="one offset"),
        pytest.param(10, 19, "10-19", id="a run"),
        pytest.param(12, 17, "12-17", id="inside a run"),
        pytest.param(30, 39, "30-34 35-35 36-39", id="several runs"),
        pytest.param(15, 36, "15-19 20-34 35-35 36-36", id="a gap goes with what follows"),
        pytest.param(22, 25, "22-25", id="inside a gap"),
        pytest.param(0, 9, "0-9", id="all passed"),
        pytest.param(0, 10, "0-9 10-10", id="passed up to the first"),
        pytest.param(0, 35, "0-9 10-19 20-34 35-35", id="passed and runs"),
        pytest.param(38, 60, "38-39 40-60", id="past the window"),
        pytest.param(50, 60, "50-60", id="far past the window"),
        pytest.param(0, 2**62, f"0-9 10-19 20-34 35-35 36-39 40-{2**62}", id="huge"),
    ],
)
def test_pieces(first: int, last: int, pieces: str) -> None:
    found = _window().split_by_run(first, last)
    assert " ".join(f"{a}-{b}" for a, b in found) == pieces


@pytest.mark.parametrize(("first", "last", "pieces"), [(5, 6, [(5, 6)]), (5, 15, [(5, 9), (10, 15)])])
def test_an_empty_window_knows_only_what_it_passed(
    first: int, last: int, pieces: list[tuple[int, int]]
) -> None:
    assert opened(10).split_by_run(first, last) == pieces
