"""Every offset of a log has exactly one outcome."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker.verification.offset_outcomes import OffsetOutcome, RecordLog, outcome_runs
from sharebroker.verification.runs import Run, Span, replay
from tests.unit.client.verification.test_runs import OFFSETS, RUNS


@given(RUNS, st.integers(-1, 14), OFFSETS, OFFSETS)
def test_every_offset_has_one_outcome(written: list[Run], start: int, log_start: int, size: int) -> None:
    end = log_start + size
    log = RecordLog(log_start, end, held=[Span(3, 4)], markers=[Span(6, 6)], missing=[Span(9, 9)])
    found = outcome_runs(log, start, replay(written, start))
    assert [offset for run in found for offset in range(run.first, run.last + 1)] == list(
        range(log_start, end)
    )
    assert sum(run.offsets for run in found) == size


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (
            -1,
            [
                (0, 2, OffsetOutcome.UNDECIDED, 0),
                (3, 4, OffsetOutcome.ACCEPTED, 1),
                (5, 5, OffsetOutcome.ARCHIVED, 2),
                (6, 6, OffsetOutcome.UNDECIDED, 3),
                (7, 8, OffsetOutcome.IN_DELIVERY, 0),
                (9, 9, OffsetOutcome.UNDECIDED, 0),
                (10, 10, OffsetOutcome.GAP, 0),
            ],
        ),
        (
            2,
            [
                (0, 1, OffsetOutcome.PASSED, 0),
                (2, 2, OffsetOutcome.AVAILABLE, 0),
                (3, 4, OffsetOutcome.ACCEPTED, 1),
                (5, 5, OffsetOutcome.ARCHIVED, 2),
                (6, 6, OffsetOutcome.AVAILABLE, 3),
                (7, 8, OffsetOutcome.IN_DELIVERY, 0),
                (9, 9, OffsetOutcome.AVAILABLE, 0),
                (10, 10, OffsetOutcome.GAP, 0),
            ],
        ),
        (12, [(0, 10, OffsetOutcome.PASSED, 0)]),
    ],
)
def test_outcomes(start: int, expected: list[tuple[int, int, OffsetOutcome, int]]) -> None:
    runs = [Run(3, 4, 2, 1), Run(5, 5, 4, 2), Run(6, 6, 0, 3)]
    log = RecordLog(0, 11, held=[Span(4, 4), Span(7, 8)], markers=[Span(10, 10)])
    assert [tuple(run) for run in outcome_runs(log, start, runs)] == expected


def test_outcomes_have_json_names() -> None:
    assert [outcome.key for outcome in OffsetOutcome if " " in outcome] == ["in_delivery"]
