"""What the log of a share-partition's state comes to, worked out anew from KIP-932's drafts.

The share coordinator folds record by record, in place; here everything that was said of an offset is laid
side by side, and the strongest word counts: more deliveries, then the higher state. That both come to the
same is what the pipeline verifies, so nothing of the coordinator is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from sharebroker_server.pipeline.core.cover import Piece, cover

NOT_SET: Final = -1
"""A start offset that nobody has chosen yet."""

Kind = Literal["checkpoint", "delta", "tombstone", "answer", "unreadable"]
"""The first three lie in the log; `answer` is what the coordinator answers reads from."""


class Standing(NamedTuple):
    """Deliveries of offsets and their state: 0 available, 2 acknowledged, 3 archiving, 4 archived.

    Of two the greater counts.
    """

    deliveries: int
    state: int


Run = Piece[Standing]
"""Offsets that stand alike."""


class Entry(NamedTuple):
    """A record of the log, or the answer. None: a delta does not say. Milliseconds since the Unix epoch."""

    position: int
    kind: Kind
    checkpoint_epoch: int
    state_epoch: int | None = None
    leader_epoch: int | None = None
    start_offset: int | None = None
    written_at_ms: int | None = None
    runs: tuple[Run, ...] = ()


class State(NamedTuple):
    """A share-partition: epochs, where it starts, and the offsets behind that it knows something of."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    runs: tuple[Run, ...]


def in_force(log: Iterable[Entry]) -> list[Entry]:
    """The latest checkpoint and the deltas that name it, by position; nothing after a tombstone."""
    counted: list[Entry] = []
    for entry in sorted(log, key=lambda entry: entry.position):
        if entry.kind == "checkpoint":
            counted = [entry]
        elif entry.kind == "tombstone":
            counted = []
        elif entry.kind == "delta" and counted and entry.checkpoint_epoch == counted[0].checkpoint_epoch:
            counted.append(entry)
    return counted


def fold(log: Iterable[Entry]) -> State | None:
    """The state that the log comes to; None: there is none."""
    entries = in_force(log)
    if not entries:
        return None
    start = _last([entry.start_offset for entry in entries], NOT_SET)
    return State(
        _last([entry.state_epoch for entry in entries], 0),
        _last([entry.leader_epoch for entry in entries], 0),
        start,
        tuple(strongest((run for entry in entries for run in entry.runs), start)),
    )


def strongest(runs: Iterable[Run], start: int) -> list[Run]:
    """Of all that was said of each offset from `start` on the strongest word."""
    clipped = [run._replace(first=max(run.first, start)) for run in runs if run.last >= start]
    return cover(sorted(clipped, key=lambda run: run.value, reverse=True))


def _last(values: Sequence[int | None], default: int) -> int:
    return next((value for value in reversed(values) if value is not None), default)
