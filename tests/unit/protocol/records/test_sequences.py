"""Sequence numbers of producers wrap around."""

from __future__ import annotations

import pytest

from sharebroker_protocol.records.sequences import SEQUENCES, sequence_after


@pytest.mark.parametrize(
    ("sequence", "count", "after"),
    [(0, 1, 1), (7, 3, 10), (SEQUENCES - 1, 1, 0), (SEQUENCES - 2, 5, 3)],
)
def test_zero_follows_the_highest_sequence(sequence: int, count: int, after: int) -> None:
    assert sequence_after(sequence, count) == after
