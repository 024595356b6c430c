"""What the log still tells of offsets, also of those that the start offset has passed since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_server.pipeline.core.cover import Piece, beside, cover
from sharebroker_server.pipeline.core.fold import NOT_SET, Entry, Standing, in_force, strongest

FINISHED: Final = 2
"""The lowest state after which an offset is not delivered again."""

_PASSED: Final = "passed"
_WORDS: Final = {2: "accepted", 3: "archived", 4: "archived"}


class Told(NamedTuple):
    """Offsets of one fate: available, accepted, archived, or passed: finished, the log does not say how.

    `deliveries` is None where the log does not count them; `finished_at_ms` (since the Unix epoch) where they
    are not finished, or were before the log's latest checkpoint.
    """

    first: int
    last: int
    fate: str
    deliveries: int | None
    finished_at_ms: int | None


class _Finish(NamedTuple):
    fate: str
    at_ms: int | None


def told(entries: Iterable[Entry]) -> list[Told]:
    """What is told of each offset, ascending."""
    log = in_force(entries)
    standing = strongest((run for entry in log for run in entry.runs), NOT_SET)
    fates = [
        Piece(first, last, _fate(word, end))
        for first, last, (word, end) in beside(standing, cover(list(_finishes(log))))
    ]
    return [Told(first, last, *fate) for first, last, fate in cover(fates)]


def _fate(word: Standing | None, end: _Finish | None) -> tuple[str, int | None, int | None]:
    counted = word is not None and (end is None or end.fate != _PASSED)
    deliveries = word.deliveries if word is not None and counted else None
    return (end.fate, deliveries, end.at_ms) if end is not None else ("available", deliveries, None)


def _finishes(log: list[Entry]) -> Iterator[Piece[_Finish]]:
    """Who finished offsets, and when; the earliest word first. What a checkpoint tells happened before it."""
    start = NOT_SET
    for entry in log:
        at_ms = entry.written_at_ms if entry.kind == "delta" else None
        for first, last, standing in entry.runs:
            if standing.state >= FINISHED:
                yield Piece(first, last, _Finish(_WORDS[standing.state], at_ms))
        if entry.start_offset is not None:
            if NOT_SET < start < entry.start_offset:
                yield Piece(start, entry.start_offset - 1, _Finish(_PASSED, at_ms))
            start = entry.start_offset
