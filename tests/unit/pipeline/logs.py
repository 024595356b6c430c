"""Logs that somebody made up."""

from __future__ import annotations

from sharebroker_server.pipeline.core.state_log import Entry, Kind, OffsetStatus, Run

Told = tuple[int, int, int, int]
"""First and last offset, state, delivery count."""

AVAILABLE, ACCEPTED, ARCHIVED = 0, 2, 4


def runs(*told: Told) -> tuple[Run, ...]:
    return tuple(Run(first, last, OffsetStatus(count, state)) for first, last, state, count in told)


def checkpoint(
    *told: Told, at: int = 1, epoch: int = 1, start: int = 100, leader: int = 5, state: int = 2
) -> Entry:
    return Entry(at, "checkpoint", epoch, state, leader, start, at * 1000, runs(*told))


def delta(*told: Told, at: int, epoch: int = 1, start: int | None = None, leader: int | None = None) -> Entry:
    return Entry(at, "delta", epoch, None, leader, start, at * 1000, runs(*told))


def answer(*told: Told, start: int = 100, leader: int = 5, state: int = 2) -> Entry:
    return Entry(1, "answer", 1, state, leader, start, 0, runs(*told))


def bare(kind: Kind, at: int = 9) -> Entry:
    return Entry(at, kind, 0)
