"""The log against the answer: where the coordinator says something else than its log comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sharebroker_server.pipeline.core.cover import beside, cover
from sharebroker_server.pipeline.core.fold import Entry, Standing, State, fold, in_force

_NAMES: Final = {0: "available", 2: "acknowledged", 3: "archiving", 4: "archived"}
_FIELDS: Final = {"state_epoch": "state epoch", "leader_epoch": "leader epoch", "start_offset": "start"}


class Difference(NamedTuple):
    """Something that cannot be; offsets are None where it is not about single ones."""

    first_offset: int | None
    last_offset: int | None
    text: str


class Checked(NamedTuple):
    """A share-partition, compared."""

    state: State | None
    records: int
    differences: tuple[Difference, ...]


def check(entries: Sequence[Entry]) -> Checked:
    """Folds the log among `entries` and compares it with the answer among them."""
    log = [entry for entry in entries if entry.kind in ("checkpoint", "delta", "tombstone")]
    answers = [_state(entry) for entry in entries if entry.kind == "answer"]
    folded = fold(log)
    if any(entry.kind == "unreadable" for entry in entries):
        found = [Difference(None, None, "The log holds what is no record.")]
    else:
        found = [*_backwards(in_force(log)), *differences(folded, answers[0] if answers else None)]
    return Checked(folded, len(log), tuple(found))


def differences(folded: State | None, answer: State | None) -> Iterator[Difference]:
    """Where log and answer say different things."""
    if folded is None or answer is None:
        if folded is not answer:
            there, missing = ("log", "answer") if answer is None else ("answer", "log")
            yield Difference(None, None, f"There is a state by the {there}, and none by the {missing}.")
        return
    for field, name in _FIELDS.items():
        by_log, answered = getattr(folded, field), getattr(answer, field)
        if by_log != answered:
            yield Difference(None, None, f"The {name} is {by_log} by the log; the answer is {answered}.")
    for first, last, (by_log, answered) in beside(folded.runs, answer.runs):
        if by_log != answered:
            text = f"By the log {_words(by_log)}; the answer is {_words(answered)}."
            yield Difference(first, last, text)


def _backwards(entries: Iterable[Entry]) -> Iterator[Difference]:
    """A start offset and a leader epoch only rise from a checkpoint on."""
    for field, name in (("start_offset", "start"), ("leader_epoch", "leader epoch")):
        told = [entry for entry in entries if getattr(entry, field) is not None]
        for before, after in pairwise(told):
            earlier, later = getattr(before, field), getattr(after, field)
            if later < earlier:
                text = f"The {name} goes back from {earlier} to {later} at position {after.position}."
                yield Difference(None, None, text)


def _state(answer: Entry) -> State:
    runs = cover(sorted(answer.runs))
    return State(answer.state_epoch or 0, answer.leader_epoch or 0, answer.start_offset or 0, tuple(runs))


def _words(standing: Standing | None) -> str:
    if standing is None:
        return "nothing is known of them"
    times = "once" if standing.deliveries == 1 else f"{standing.deliveries} times"
    return f"{_NAMES.get(standing.state, str(standing.state))}, delivered {times}"
