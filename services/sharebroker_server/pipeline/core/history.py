"""The outcomes of offsets according to the log, including offsets below the start offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_server.pipeline.core.cover import Piece, align, cover
from sharebroker_server.pipeline.core.replay import (
    NOT_SET,
    Entry,
    OffsetStatus,
    combine_statuses,
    current_entries,
)

FINISHED: Final = 2
"""The lowest state in which an offset is not delivered again."""

_PASSED: Final = "passed"
_OUTCOMES: Final = {2: "accepted", 3: "archived", 4: "archived"}


class OffsetOutcome(NamedTuple):
    """Offsets with one outcome: available, accepted, archived, or passed (finished in an unknown way).

    `deliveries` is None if the log does not contain it. `finished_at_ms` (since the Unix epoch) is None if
    the offsets are not finished, or finished before the latest checkpoint.
    """

    first: int
    last: int
    outcome: str
    deliveries: int | None
    finished_at_ms: int | None


class _Finish(NamedTuple):
    outcome: str
    at_ms: int | None


def outcomes_of(entries: Iterable[Entry]) -> list[OffsetOutcome]:
    """Returns the outcome of each offset, ascending."""
    log = current_entries(entries)
    status = combine_statuses((run for entry in log for run in entry.runs), NOT_SET)
    outcomes = [
        Piece(first, last, _outcome(status, end))
        for first, last, (status, end) in align(status, cover(list(_finishes(log))))
    ]
    return [OffsetOutcome(first, last, *outcome) for first, last, outcome in cover(outcomes)]


def _outcome(status: OffsetStatus | None, end: _Finish | None) -> tuple[str, int | None, int | None]:
    counted = status is not None and (end is None or end.outcome != _PASSED)
    deliveries = status.deliveries if status is not None and counted else None
    return (end.outcome, deliveries, end.at_ms) if end is not None else ("available", deliveries, None)


def _finishes(log: list[Entry]) -> Iterator[Piece[_Finish]]:
    """Yields finished offsets with the time, earliest first. A checkpoint's content was finished
    before it.
    """
    start = NOT_SET
    for entry in log:
        at_ms = entry.written_at_ms if entry.kind == "delta" else None
        for first, last, status in entry.runs:
            if status.state >= FINISHED:
                yield Piece(first, last, _Finish(_OUTCOMES[status.state], at_ms))
        if entry.start_offset is not None:
            if NOT_SET < start < entry.start_offset:
                yield Piece(start, entry.start_offset - 1, _Finish(_PASSED, at_ms))
            start = entry.start_offset
