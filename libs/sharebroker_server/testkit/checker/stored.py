"""The state of a share-partition as its log tells it, offset by offset: slow, and easy to believe.

A change of the state may name an offset twice, or say less than is known: the greater counts (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sharebroker_server.testkit.checker.events import Run, Stored
from sharebroker_server.testkit.checker.invariants import Invariant, broken

_AVAILABLE: Final = 0
_FINAL: Final = frozenset({2, 4})
_UNSET: Final = -1


class OffsetState(NamedTuple):
    """What is stored of one offset; of two, the greater counts: more deliveries, then the higher state."""

    deliveries: int
    state: int

    @property
    def final(self) -> bool:
        """Acknowledged or archived."""
        return self.state in _FINAL


UNTOUCHED: Final = OffsetState(0, _AVAILABLE)


class Effect(NamedTuple):
    """What a record changed: offsets that it finishes, and as what those were stored that it opens again."""

    finished: list[int]
    reopened: dict[int, OffsetState]


class StoredState:
    """Replays the records of one share-partition's state and watches what must not happen there."""

    def __init__(self) -> None:
        self.start = _UNSET
        self._known = False
        self.being_moved = False
        self.leader_epoch = _UNSET
        self._state_epoch = _UNSET
        self._offsets: dict[int, OffsetState] = {}

    @property
    def known(self) -> bool:
        """Whether any record was seen."""
        return self._known

    def reset(self) -> None:
        """An administrator is going to move the start offset: any may follow, under a higher state epoch."""
        self.being_moved = True

    def settle(self) -> None:
        """It was moved."""
        self.being_moved = False

    def forget(self, share: object) -> None:
        """The state is deleted. Raises Violation."""
        if not self.being_moved:
            broken(Invariant.NEVER_LOST, f"the state of {share} is deleted, and nobody asked for that")
        self.start = self.leader_epoch = _UNSET
        self._offsets = {}

    def fences(self, state_epoch: int, leader_epoch: int) -> bool:
        """Whether nothing may be written under these epochs any more: the log has a later one."""
        return state_epoch < self._state_epoch or leader_epoch < self.leader_epoch

    def finished(self, offset: int) -> bool:
        """Whether the log says that the record is done with."""
        return offset < self.start or self.at(offset).final

    def at(self, offset: int) -> OffsetState:
        """What is stored of an offset from the start on."""
        return self._offsets.get(offset, UNTOUCHED)

    def lag(self, end: int) -> int:
        """Unfinished records below the log's end."""
        finished = sum(state.final for offset, state in self._offsets.items() if offset < end)
        return max(0, end - max(self.start, 0)) - finished

    def apply(self, record: Stored) -> Effect:
        """Takes a record. Raises Violation."""
        anew = self.being_moved and record.whole and record.state_epoch > self._state_epoch
        self._check_epochs(record)
        before, start = self.start, self.start if record.start == _UNSET else record.start
        if record.whole and record.start < 0 <= before and not anew:
            broken(
                Invariant.START_NEVER_BACK, f"{record.share} had begun at {before}, and has no start any more"
            )
        if start < before and not anew:
            broken(Invariant.START_NEVER_BACK, f"{record.share} goes from {before} to {start}")
        changed = self._changed(record)
        finished = [] if anew or before == _UNSET else self._newly_finished(before, start, changed)
        reopened = {} if anew else self._reopened(record, start, changed)
        self._known = True
        self.start = start
        kept = {} if record.whole else self._offsets
        self._offsets = {offset: state for offset, state in (kept | changed).items() if offset >= start}
        return Effect(finished, reopened)

    def check_read(self, share: object, start: int, runs: Sequence[Run]) -> None:
        """Compares with what the keeper of the state says. Raises Violation."""
        told = {offset: state for offset, state in _spread(runs) if state != UNTOUCHED}
        kept = {offset: state for offset, state in self._offsets.items() if state != UNTOUCHED}
        if start != self.start or told != kept:
            broken(
                Invariant.REPLAY_AGREES, f"{share}: {start} {told} in memory, {self.start} {kept} in the log"
            )

    def _check_epochs(self, record: Stored) -> None:
        for epoch, known in (
            (record.state_epoch, self._state_epoch),
            (record.leader_epoch, self.leader_epoch),
        ):
            if _UNSET < epoch < known:
                broken(Invariant.EPOCHS_RISE, f"{record.share} is written under {epoch} after {known}")
        self._state_epoch = max(self._state_epoch, record.state_epoch)
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)

    def _reopened(
        self, record: Stored, start: int, changed: dict[int, OffsetState]
    ) -> dict[int, OffsetState]:
        """By a change, or by a whole that leaves them out."""
        return {
            offset: state
            for offset, state in self._offsets.items()
            if state.final and offset >= start
            if not changed.get(offset, UNTOUCHED if record.whole else state).final
        }

    def _changed(self, record: Stored) -> dict[int, OffsetState]:
        """The offsets that a record names, as they are with it."""
        states: dict[int, OffsetState] = {}
        for offset, state in _spread(record.runs):
            if record.whole and offset in states:
                broken(
                    Invariant.ONE_STATE, f"{record.share} {offset} is stored as {states[offset]} and {state}"
                )
            known = UNTOUCHED if record.whole else self.at(offset)
            states[offset] = max(known, state, states.get(offset, state))
        return states

    def _newly_finished(self, before: int, start: int, changed: dict[int, OffsetState]) -> list[int]:
        passed = [offset for offset in range(before, start) if not self.at(offset).final]
        told = [offset for offset, state in changed.items() if state.final and not self.at(offset).final]
        return passed + [offset for offset in told if offset >= start]


def _spread(runs: Sequence[Run]) -> Iterator[tuple[int, OffsetState]]:
    for run in runs:
        for offset in range(run.first, run.last + 1):
            yield offset, OffsetState(run.deliveries, run.state)
