"""Made-up state logs."""

from __future__ import annotations

from sharebroker_server.pipeline.core.state_log import Kind, OffsetStatus, Run, StateLogEntry

RunValues = tuple[int, int, int, int]
"""First and last offset, state, delivery count."""

AVAILABLE, ACCEPTED, ARCHIVED = 0, 2, 4


def runs(*values: RunValues) -> tuple[Run, ...]:
    return tuple(Run(first, last, OffsetStatus(count, state)) for first, last, state, count in values)


def checkpoint(
    *values: RunValues, at: int = 1, epoch: int = 1, start: int = 100, leader: int = 5, state: int = 2
) -> StateLogEntry:
    return StateLogEntry(at, "checkpoint", epoch, state, leader, start, at * 1000, runs(*values))


def delta(
    *values: RunValues, at: int, epoch: int = 1, start: int | None = None, leader: int | None = None
) -> StateLogEntry:
    return StateLogEntry(at, "delta", epoch, None, leader, start, at * 1000, runs(*values))


def answer(*values: RunValues, start: int = 100, leader: int = 5, state: int = 2) -> StateLogEntry:
    return StateLogEntry(1, "answer", 1, state, leader, start, 0, runs(*values))


def bare(kind: Kind, at: int = 9) -> StateLogEntry:
    return StateLogEntry(at, kind, 0)
