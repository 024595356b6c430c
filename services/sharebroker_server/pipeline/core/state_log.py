"""The state log of a share-partition: its replay, the outcome of each offset, and the comparison.

Theory of operation
-------------------

The pipeline replays a log independently of the share coordinator and verifies that both yield the same state,
so this module uses no code of the coordinator. The share coordinator applies record by record, in place. Here
all statuses of an offset are collected, and the highest counts: more deliveries, then the higher state, then
the newest.

* `current_entries` are the latest checkpoint and its deltas; nothing else in the log has an effect.
* `cover` resolves overlapping ranges of offsets: each offset has the value of the first range that contains
  it. With the ranges sorted by status, highest and newest first, that is the rule above; sorted by time, it
  yields the earliest end of each offset.
* `check` compares the replayed state with the coordinator's, field by field and stretch by stretch.
* `outcomes_of` includes offsets below the start offset, which the replayed state omits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

NOT_SET: Final = -1
"""A start offset that is not chosen yet."""

ARCHIVING: Final = 3
"""The state of an offset that failed and is not finished: its dead letter is not written yet."""

_PASSED: Final = "passed"
_OUTCOMES: Final = {2: "accepted", 4: "archived"}
"""The outcomes of the states in which an offset is finished."""

_NAMES: Final = {0: "available", 2: "acknowledged", 3: "archiving", 4: "archived"}
_FIELDS: Final = {"state_epoch": "state epoch", "leader_epoch": "leader epoch", "start_offset": "start"}

Kind = Literal["checkpoint", "delta", "tombstone", "answer", "unreadable"]
"""The first three are log records; `answer` is the coordinator's state in memory."""

V = TypeVar("V")
W = TypeVar("W")


class OffsetRange(NamedTuple, Generic[V]):
    """Offsets first..last, both inclusive, and their value."""

    first: int
    last: int
    value: V


def cover(pieces: Sequence[OffsetRange[V]]) -> list[OffsetRange[V]]:
    """Returns ascending disjoint pieces; each offset has the value of the first of `pieces` that contains it.

    Adjacent pieces with equal values are merged. Takes O(n log n): each stretch between two edges is assigned
    once.
    """
    edges = sorted(_edges(pieces))
    number = {edge: index for index, edge in enumerate(edges)}
    assigned: list[OffsetRange[V] | None] = [None] * len(edges)
    next_free = list(range(len(edges)))  # the next unassigned stretch from each one, found by path halving
    for piece in pieces:
        stretch, end = _find_free(next_free, number[piece.first]), number[piece.last + 1]
        while stretch < end:
            assigned[stretch], next_free[stretch] = piece, stretch + 1
            stretch = _find_free(next_free, stretch + 1)
    covered: list[OffsetRange[V]] = []
    for index, owner in enumerate(assigned):
        if owner is not None:
            _append(covered, OffsetRange(edges[index], edges[index + 1] - 1, owner.value))
    return covered


def align(
    left: Sequence[OffsetRange[V]], right: Sequence[OffsetRange[W]]
) -> list[OffsetRange[tuple[V | None, W | None]]]:
    """Returns the stretches with the values of both sides; None means no value.

    Both sides must be ascending and disjoint.
    """
    edges = sorted({*_edges(left), *_edges(right)})
    stretches = [
        OffsetRange(first, after - 1, (_at(left, first), _at(right, first)))
        for first, after in pairwise(edges)
    ]
    return cover([piece for piece in stretches if piece.value != (None, None)])


def _edges(pieces: Iterable[OffsetRange[V]]) -> set[int]:
    return {edge for piece in pieces for edge in (piece.first, piece.last + 1)}


def _at(pieces: Sequence[OffsetRange[V]], offset: int) -> V | None:
    index = bisect_right(pieces, offset, key=lambda piece: piece.first) - 1
    return pieces[index].value if index >= 0 and offset <= pieces[index].last else None


def _find_free(next_free: list[int], stretch: int) -> int:
    while next_free[stretch] != stretch:
        next_free[stretch] = next_free[next_free[stretch]]
        stretch = next_free[stretch]
    return stretch


def _append(covered: list[OffsetRange[Any]], piece: OffsetRange[Any]) -> None:
    before = covered[-1] if covered else None
    if before is not None and before.last + 1 == piece.first and before.value == piece.value:
        covered[-1] = before._replace(last=piece.last)
    else:
        covered.append(piece)


class OffsetStatus(NamedTuple):
    """The delivery count and state of offsets: 0 available, 2 acknowledged, 3 archiving, 4 archived.

    The greater of two counts; of two that differ only in `not_before_ms`, the newer one. An available offset
    is not delivered before `not_before_ms` since the Unix epoch; 0: at once.
    """

    deliveries: int
    state: int
    not_before_ms: int = 0


Run = OffsetRange[OffsetStatus]
"""Offsets with the same status."""


class StateLogEntry(NamedTuple):
    """A log record, or the coordinator's state.

    None: unchanged by a delta. Times in ms since the Unix epoch.
    """

    position: int
    kind: Kind
    checkpoint_epoch: int
    state_epoch: int | None = None
    leader_epoch: int | None = None
    start_offset: int | None = None
    written_at_ms: int | None = None
    runs: tuple[Run, ...] = ()


class ShareStateView(NamedTuple):
    """The state of a share-partition: epochs, start offset, and the runs from there on."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    runs: tuple[Run, ...]


def current_entries(log: Iterable[StateLogEntry]) -> list[StateLogEntry]:
    """Returns the latest checkpoint and its deltas, by position; nothing after a tombstone."""
    current: list[StateLogEntry] = []
    for entry in sorted(log, key=lambda entry: entry.position):
        if entry.kind == "checkpoint":
            current = [entry]
        elif entry.kind == "tombstone":
            current = []
        elif entry.kind == "delta" and current and entry.checkpoint_epoch == current[0].checkpoint_epoch:
            current.append(entry)
    return current


def replay(log: Iterable[StateLogEntry]) -> ShareStateView | None:
    """Returns the state that the log yields; None without one."""
    entries = current_entries(log)
    if not entries:
        return None
    start = _last([entry.start_offset for entry in entries], NOT_SET)
    return ShareStateView(
        _last([entry.state_epoch for entry in entries], 0),
        _last([entry.leader_epoch for entry in entries], 0),
        start,
        tuple(combine_statuses((run for entry in entries for run in entry.runs), start)),
    )


def combine_statuses(runs: Iterable[Run], start: int) -> list[Run]:
    """Returns the highest status of each offset from `start` on; `runs` are in the order of the log."""
    clipped = [run._replace(first=max(run.first, start)) for run in runs if run.last >= start]
    return cover(sorted(clipped, key=lambda run: run.value[:2])[::-1])


def _last(values: Sequence[int | None], default: int) -> int:
    return next((value for value in reversed(values) if value is not None), default)


class Difference(NamedTuple):
    """A difference; offsets are None if it does not concern single offsets."""

    first_offset: int | None
    last_offset: int | None
    text: str


class Comparison(NamedTuple):
    """The result of the comparison of one share-partition."""

    state: ShareStateView | None
    records: int
    differences: tuple[Difference, ...]


def check(entries: Sequence[StateLogEntry]) -> Comparison:
    """Replays the log among `entries` and compares it with the coordinator's state among them."""
    log = [entry for entry in entries if entry.kind in ("checkpoint", "delta", "tombstone")]
    answers = [_state(entry) for entry in entries if entry.kind == "answer"]
    replayed = replay(log)
    if any(entry.kind == "unreadable" for entry in entries):
        found = [Difference(None, None, "The log contains an invalid record.")]
    else:
        found = [*_decreases(current_entries(log)), *differences(replayed, answers[0] if answers else None)]
    return Comparison(replayed, len(log), tuple(found))


def differences(replayed: ShareStateView | None, live_state: ShareStateView | None) -> Iterator[Difference]:
    """Yields the differences between the replayed state and the coordinator's state."""
    if replayed is None or live_state is None:
        if replayed is not live_state:
            present, missing = ("log", "coordinator") if live_state is None else ("coordinator", "log")
            yield Difference(None, None, f"The {present} has a state, but the {missing} has none.")
        return
    for field, name in _FIELDS.items():
        by_log, live = getattr(replayed, field), getattr(live_state, field)
        if by_log != live:
            yield Difference(None, None, f"The {name} is {by_log} in the log, but {live} in the coordinator.")
    for first, last, (by_log, live) in align(replayed.runs, live_state.runs):
        if by_log != live:
            text = f"In the log: {_describe(by_log)}; in the coordinator: {_describe(live)}."
            yield Difference(first, last, text)


def _decreases(entries: Iterable[StateLogEntry]) -> Iterator[Difference]:
    """Yields decreases of start offset and leader epoch, which must only rise after a checkpoint."""
    for field, name in (("start_offset", "start"), ("leader_epoch", "leader epoch")):
        with_value = [entry for entry in entries if getattr(entry, field) is not None]
        for before, after in pairwise(with_value):
            earlier, later = getattr(before, field), getattr(after, field)
            if later < earlier:
                text = f"The {name} decreases from {earlier} to {later} at position {after.position}."
                yield Difference(None, None, text)


def _state(live_state: StateLogEntry) -> ShareStateView:
    runs = cover(sorted(live_state.runs))
    return ShareStateView(
        live_state.state_epoch or 0, live_state.leader_epoch or 0, live_state.start_offset or 0, tuple(runs)
    )


def _describe(status: OffsetStatus | None) -> str:
    if status is None:
        return "no state"
    times = "once" if status.deliveries == 1 else f"{status.deliveries} times"
    wait = f", not before {status.not_before_ms} ms" if status.not_before_ms else ""
    return f"{_NAMES.get(status.state, str(status.state))}, delivered {times}{wait}"


class OffsetsWithOutcome(NamedTuple):
    """Offsets with one outcome: available, archiving, accepted, archived, or passed.

    Passed offsets finished in an unknown way.

    `deliveries` is None if the log does not contain it. `finished_at_ms` (since the Unix epoch) is None if
    the offsets are not finished, or finished before the latest checkpoint. Available offsets are not
    delivered before `not_before_ms`; None: at once.
    """

    first: int
    last: int
    outcome: str
    deliveries: int | None
    finished_at_ms: int | None
    not_before_ms: int | None = None


class _Finish(NamedTuple):
    outcome: str
    at_ms: int | None


def outcomes_of(entries: Iterable[StateLogEntry]) -> list[OffsetsWithOutcome]:
    """Returns the outcome of each offset, ascending."""
    log = current_entries(entries)
    status = combine_statuses((run for entry in log for run in entry.runs), NOT_SET)
    outcomes = [
        OffsetRange(first, last, _outcome(status, end))
        for first, last, (status, end) in align(status, cover(list(_finishes(log))))
    ]
    return [OffsetsWithOutcome(first, last, *outcome) for first, last, outcome in cover(outcomes)]


def _outcome(
    status: OffsetStatus | None, end: _Finish | None
) -> tuple[str, int | None, int | None, int | None]:
    counted = status is not None and (end is None or end.outcome != _PASSED)
    deliveries = status.deliveries if status is not None and counted else None
    if end is not None:
        return end.outcome, deliveries, end.at_ms, None
    if status is not None and status.state == ARCHIVING:
        return "archiving", deliveries, None, None
    return "available", deliveries, None, (status.not_before_ms or None) if status is not None else None


def _finishes(log: list[StateLogEntry]) -> Iterator[OffsetRange[_Finish]]:
    """Yields finished offsets with the time, earliest first.

    A checkpoint's content was finished before it.
    """
    start = NOT_SET
    for entry in log:
        at_ms = entry.written_at_ms if entry.kind == "delta" else None
        for first, last, status in entry.runs:
            if status.state in _OUTCOMES:
                yield OffsetRange(first, last, _Finish(_OUTCOMES[status.state], at_ms))
        if entry.start_offset is not None:
            if NOT_SET < start < entry.start_offset:
                yield OffsetRange(start, entry.start_offset - 1, _Finish(_PASSED, at_ms))
            start = entry.start_offset
