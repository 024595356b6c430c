"""What a log tells of offsets, when they ended included."""

from __future__ import annotations

import pytest

from sharebroker_server.pipeline.core.history import outcomes_of
from sharebroker_server.pipeline.core.replay import Entry
from tests.unit.pipeline.logs import ACCEPTED, ARCHIVED, AVAILABLE, answer, checkpoint, delta

CASES: dict[str, tuple[list[Entry], list[tuple[int, int, str, int | None, int | None]]]] = {
    "nothing": ([checkpoint()], []),
    "before the checkpoint: ended, nobody knows when": (
        [checkpoint((100, 100, AVAILABLE, 1), (101, 102, ACCEPTED, 1), (103, 103, ARCHIVED, 5))],
        [(100, 100, "available", 1, None), (101, 102, "accepted", 1, None), (103, 103, "archived", 5, None)],
    ),
    "ended by a delta": (
        [
            checkpoint((100, 109, AVAILABLE, 1)),
            delta((101, 102, ACCEPTED, 2), (104, 104, 3, 1), at=7),
            answer((101, 102, ACCEPTED, 2)),  # which tells nothing of when
        ],
        [
            (100, 100, "available", 1, None),
            (101, 102, "accepted", 2, 7000),
            (103, 103, "available", 1, None),
            (104, 104, "archived", 1, 7000),
            (105, 109, "available", 1, None),
        ],
    ),
    "passed: ended, nobody knows how": (
        [
            checkpoint((101, 101, AVAILABLE, 1), (103, 103, ACCEPTED, 1)),
            delta((104, 104, ACCEPTED, 2), at=5),
            delta(at=8, start=106),
            delta(at=9, start=107),
        ],
        [
            (100, 102, "passed", None, 8000),
            (103, 103, "accepted", 1, None),
            (104, 104, "accepted", 2, 5000),
            (105, 105, "passed", None, 8000),
            (106, 106, "passed", None, 9000),
        ],
    ),
    "a first start passes nothing": ([checkpoint(start=-1), delta(at=2, start=50)], []),
}


@pytest.mark.parametrize("case", CASES)
def test_told(case: str) -> None:
    entries, expected = CASES[case]
    assert [tuple(one) for one in outcomes_of(entries)] == expected
