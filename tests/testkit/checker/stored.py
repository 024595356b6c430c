"""The state of a share-partition according to its log, offset by offset: slow and simple.

If a record contains an offset twice, or less than the stored state, the greater counts (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final, NamedTuple

from tests.testkit.checker.events import Run, Stored
from tests.testkit.checker.invariants import Invariant, broken

_AVAILABLE: Final = 0
_ARCHIVING: Final = 3
_FINAL: Final = frozenset({2, 4})
_ENDED: Final = frozenset({2, 3, 4})
_UNSET: Final = -1


class OffsetState(NamedTuple):
    """The stored state of one offset; the greater of two counts: more deliveries, then the higher state."""

    deliveries: int
    state: int

    @property
    def final(self) -> bool:
        """Whether it is acknowledged or archived."""
        return self.state in _FINAL

    @property
    def ended(self) -> bool:
        """Whether it will not be delivered again: it is final, or waits for its dead letter."""
        return self.state in _ENDED


UNTOUCHED: Final = OffsetState(0, _AVAILABLE)


class Effect(NamedTuple):
    """The effect of a record: offsets that it finishes or ends, and the previous states of those
    that it reopens.
    """

    finished: list[int]
    ended: list[int]
    reopened: dict[int, OffsetState]


class StoredState:
    """Replays the state records of one share-partition and checks its invariants."""

    def __init__(self) -> None:
        self.start = _UNSET
        self._known = False
        self.being_moved = False
        self.leader_epoch = _UNSET
        self._state_epoch = _UNSET
        self._offsets: dict[int, OffsetState] = {}
        self._waits: dict[int, tuple[OffsetState, float]] = {}

    @property
    def known(self) -> bool:
        """Whether any record was read."""
        return self._known

    def reset(self) -> None:
        """Expects an administrator's reset: any start offset may follow, with a higher state epoch."""
        self.being_moved = True

    def reset_done(self) -> None:
        """Ends the reset."""
        self.being_moved = False

    def forget(self, share: object) -> None:
        """Adds the deletion of the state. Raises Violation."""
        if not self.being_moved:
            broken(Invariant.NEVER_LOST, f"the state of {share} was deleted without a request")
        self.start = self.leader_epoch = _UNSET
        self._offsets = {}

    def fences(self, state_epoch: int, leader_epoch: int) -> bool:
        """Returns whether writes with these epochs must be rejected: the log has a later one."""
        return state_epoch < self._state_epoch or leader_epoch < self.leader_epoch

    def finished(self, offset: int) -> bool:
        """Returns whether the record is finished in the log."""
        return offset < self.start or self.at(offset).final

    def ended(self, offset: int) -> bool:
        """Returns whether the record is finished in the log, or waits for its dead letter."""
        return offset < self.start or self.at(offset).ended

    def archiving(self, offset: int) -> bool:
        """Returns whether the record waits for its dead letter."""
        return offset >= self.start and self.at(offset).state == _ARCHIVING

    def at(self, offset: int) -> OffsetState:
        """Returns the stored state of an offset."""
        return self._offsets.get(offset, UNTOUCHED)

    def not_before(self, offset: int, delivery_count: int) -> float:
        """Returns the stored time before which a delivery may not begin; 0: there is none.

        The newest of several times counts.
        """
        state, time = self._waits.get(offset, (UNTOUCHED, 0.0))
        return time if state == self.at(offset) and state.deliveries == delivery_count - 1 else 0.0

    def lag(self, end: int) -> int:
        """Returns the number of unfinished records below the log end."""
        finished = sum(state.final for offset, state in self._offsets.items() if offset < end)
        return max(0, end - max(self.start, 0)) - finished

    def apply(self, record: Stored) -> Effect:
        """Applies a record. Raises Violation."""
        is_reset = self.being_moved and record.whole and record.state_epoch > self._state_epoch
        self._check_epochs(record)
        before, start = self.start, self.start if record.start == _UNSET else record.start
        if record.whole and record.start < 0 <= before and not is_reset:
            broken(Invariant.START_NEVER_BACK, f"{record.share} lost its start offset {before}")
        if start < before and not is_reset:
            broken(
                Invariant.START_NEVER_BACK, f"{record.share} moves its start offset from {before} to {start}"
            )
        changed = self._changed(record)
        self._note_waits(record)
        begins = is_reset or before == _UNSET
        finished = [] if begins else self._newly(_FINAL, before, start, changed)
        ended = [] if begins else self._newly(_ENDED, before, start, changed)
        reopened = {} if is_reset else self._reopened(record, start, changed)
        self._known = True
        self.start = start
        kept = {} if record.whole else self._offsets
        self._offsets = {offset: state for offset, state in (kept | changed).items() if offset >= start}
        return Effect(finished, ended, reopened)

    def check_read(self, share: object, start: int, runs: Sequence[Run]) -> None:
        """Compares the state with the coordinator's memory. Raises Violation."""
        in_memory = {offset: state for offset, state in _spread(runs) if state != UNTOUCHED}
        kept = {offset: state for offset, state in self._offsets.items() if state != UNTOUCHED}
        if start != self.start or in_memory != kept:
            broken(
                Invariant.REPLAY_AGREES,
                f"{share}: {start} {in_memory} in memory, {self.start} {kept} in the log",
            )

    def _note_waits(self, record: Stored) -> None:
        if record.whole:
            self._waits = {}
        for run in record.runs:
            state = OffsetState(run.deliveries, run.state)
            for offset in range(run.first, run.last + 1):
                if state >= self._waits.get(offset, (UNTOUCHED, 0.0))[0]:
                    self._waits[offset] = state, run.not_before

    def _check_epochs(self, record: Stored) -> None:
        for epoch, known in (
            (record.state_epoch, self._state_epoch),
            (record.leader_epoch, self.leader_epoch),
        ):
            if _UNSET < epoch < known:
                broken(Invariant.EPOCHS_RISE, f"{record.share} was written with epoch {epoch} after {known}")
        self._state_epoch = max(self._state_epoch, record.state_epoch)
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)

    def _reopened(
        self, record: Stored, start: int, changed: dict[int, OffsetState]
    ) -> dict[int, OffsetState]:
        """Returns offsets reopened by a delta, or by a checkpoint without them."""
        return {
            offset: state
            for offset, state in self._offsets.items()
            if state.ended and offset >= start
            if not changed.get(offset, UNTOUCHED if record.whole else state).ended
        }

    def _changed(self, record: Stored) -> dict[int, OffsetState]:
        """Returns the states of the offsets in a record."""
        states: dict[int, OffsetState] = {}
        for offset, state in _spread(record.runs):
            if record.whole and offset in states:
                broken(
                    Invariant.ONE_STATE, f"{record.share} {offset} is stored as {states[offset]} and {state}"
                )
            known = UNTOUCHED if record.whole else self.at(offset)
            states[offset] = max(known, state, states.get(offset, state))
        return states

    def _newly(self, states: Set[int], before: int, start: int, changed: dict[int, OffsetState]) -> list[int]:
        """Returns the offsets that reach one of the states, or are passed by the start offset before that."""
        passed = [offset for offset in range(before, start) if self.at(offset).state not in states]
        in_memory = [
            offset
            for offset, state in changed.items()
            if state.state in states and self.at(offset).state not in states
        ]
        return passed + [offset for offset in in_memory if offset >= start]


def _spread(runs: Sequence[Run]) -> Iterator[tuple[int, OffsetState]]:
    for run in runs:
        for offset in range(run.first, run.last + 1):
            yield offset, OffsetState(run.deliveries, run.state)
