"""Summaries of dead letters: the parts of a topic are added up."""

from __future__ import annotations

import pytest

from sharebroker.aio import dead_letters
from sharebroker.aio.dead_letters import merge, shortened
from sharebroker.dead_letter_model import DeadLetterCount


def count(reason: str, letters: int, oldest: float = 1.0, *, other: bool = False) -> DeadLetterCount:
    return DeadLetterCount("g", "t", "rejected", reason, letters, oldest, oldest + 1, 0, 7, other)


def test_rows_of_parts_are_added() -> None:
    counts: dict[tuple[str, ...], DeadLetterCount] = {}
    merge(counts, [count("a", 1), count("b", 5, 3.0), count("", 2, other=True)])
    merge(counts, [count("b", 2, 2.0), count("", 1, 0.5, other=True)])
    first, second, third = shortened(counts.values(), 10)
    assert (first.reason, first.letters, first.oldest, first.newest) == ("b", 7, 2.0, 4.0)
    assert (second.reason, second.letters) == ("a", 1)
    assert (third.other, third.letters, third.group_id, third.oldest) == (True, 3, "", 0.5)


def test_rows_beyond_the_limit_are_one() -> None:
    counts: dict[tuple[str, ...], DeadLetterCount] = {}
    merge(counts, [count(reason, number) for number, reason in enumerate("abcd", 1)])
    rows = shortened(counts.values(), 2)
    assert [(row.reason, row.letters, row.other) for row in rows] == [
        ("d", 4, False),
        ("c", 3, False),
        ("", 3, True),
    ]
    assert shortened([], 2) == []


def test_the_number_of_rows_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_MOST_ROWS", 2)
    counts: dict[tuple[str, ...], DeadLetterCount] = {}
    merge(counts, [count(reason, 1) for reason in "abcda"])
    assert [(row.reason, row.letters) for row in shortened(counts.values(), 9)] == [
        ("a", 2),
        ("b", 1),
        ("", 2),
    ]
