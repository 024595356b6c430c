"""Replays the log of a share-partition's state, independently of the share coordinator.

The share coordinator applies record by record, in place. Here all statuses of an offset are collected, and
the highest counts: more deliveries, then the higher state. The pipeline verifies that both yield the same
state, so this module uses no code of the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from sharebroker_server.pipeline.core.cover import Piece, cover

NOT_SET: Final = -1
"""A start offset that is not chosen yet."""

Kind = Literal["checkpoint", "delta", "tombstone", "answer", "unreadable"]
"""The first three are log records; `answer` is the coordinator's state in memory."""


class OffsetStatus(NamedTuple):
    """The delivery count and state of offsets: 0 available, 2 acknowledged, 3 archiving, 4 archived.

    The greater of two counts.
    """

    deliveries: int
    state: int


Run = Piece[OffsetStatus]
"""Offsets with the same status."""


class Entry(NamedTuple):
    """A log record, or the coordinator's state. None: unchanged by a delta. Times in ms since the
    Unix epoch.
    """

    position: int
    kind: Kind
    checkpoint_epoch: int
    state_epoch: int | None = None
    leader_epoch: int | None = None
    start_offset: int | None = None
    written_at_ms: int | None = None
    runs: tuple[Run, ...] = ()


class State(NamedTuple):
    """The state of a share-partition: epochs, start offset, and the runs from there on."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    runs: tuple[Run, ...]


def current_entries(log: Iterable[Entry]) -> list[Entry]:
    """Returns the latest checkpoint and its deltas, by position; nothing after a tombstone."""
    current: list[Entry] = []
    for entry in sorted(log, key=lambda entry: entry.position):
        if entry.kind == "checkpoint":
            current = [entry]
        elif entry.kind == "tombstone":
            current = []
        elif entry.kind == "delta" and current and entry.checkpoint_epoch == current[0].checkpoint_epoch:
            current.append(entry)
    return current


def replay(log: Iterable[Entry]) -> State | None:
    """Returns the state that the log yields; None without one."""
    entries = current_entries(log)
    if not entries:
        return None
    start = _last([entry.start_offset for entry in entries], NOT_SET)
    return State(
        _last([entry.state_epoch for entry in entries], 0),
        _last([entry.leader_epoch for entry in entries], 0),
        start,
        tuple(combine_statuses((run for entry in entries for run in entry.runs), start)),
    )


def combine_statuses(runs: Iterable[Run], start: int) -> list[Run]:
    """Returns the highest status of each offset from `start` on."""
    clipped = [run._replace(first=max(run.first, start)) for run in runs if run.last >= start]
    return cover(sorted(clipped, key=lambda run: run.value, reverse=True))


def _last(values: Sequence[int | None], default: int) -> int:
    return next((value for value in reversed(values) if value is not None), default)
