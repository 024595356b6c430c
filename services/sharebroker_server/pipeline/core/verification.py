"""Compares the replayed log with the coordinator's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sharebroker_server.pipeline.core.cover import align, cover
from sharebroker_server.pipeline.core.replay import Entry, OffsetStatus, State, current_entries, replay

_NAMES: Final = {0: "available", 2: "acknowledged", 3: "archiving", 4: "archived"}
_FIELDS: Final = {"state_epoch": "state epoch", "leader_epoch": "leader epoch", "start_offset": "start"}


class Difference(NamedTuple):
    """A difference; offsets are None if it does not concern single offsets."""

    first_offset: int | None
    last_offset: int | None
    text: str


class Comparison(NamedTuple):
    """The result of the comparison of one share-partition."""

    state: State | None
    records: int
    differences: tuple[Difference, ...]


def check(entries: Sequence[Entry]) -> Comparison:
    """Replays the log among `entries` and compares it with the coordinator's state among them."""
    log = [entry for entry in entries if entry.kind in ("checkpoint", "delta", "tombstone")]
    answers = [_state(entry) for entry in entries if entry.kind == "answer"]
    replayed = replay(log)
    if any(entry.kind == "unreadable" for entry in entries):
        found = [Difference(None, None, "The log contains an invalid record.")]
    else:
        found = [*_decreases(current_entries(log)), *differences(replayed, answers[0] if answers else None)]
    return Comparison(replayed, len(log), tuple(found))


def differences(replayed: State | None, live_state: State | None) -> Iterator[Difference]:
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


def _decreases(entries: Iterable[Entry]) -> Iterator[Difference]:
    """Yields decreases of start offset and leader epoch, which must only rise after a checkpoint."""
    for field, name in (("start_offset", "start"), ("leader_epoch", "leader epoch")):
        with_value = [entry for entry in entries if getattr(entry, field) is not None]
        for before, after in pairwise(with_value):
            earlier, later = getattr(before, field), getattr(after, field)
            if later < earlier:
                text = f"The {name} decreases from {earlier} to {later} at position {after.position}."
                yield Difference(None, None, text)


def _state(live_state: Entry) -> State:
    runs = cover(sorted(live_state.runs))
    return State(
        live_state.state_epoch or 0, live_state.leader_epoch or 0, live_state.start_offset or 0, tuple(runs)
    )


def _describe(status: OffsetStatus | None) -> str:
    if status is None:
        return "no state"
    times = "once" if status.deliveries == 1 else f"{status.deliveries} times"
    return f"{_NAMES.get(status.state, str(status.state))}, delivered {times}"
