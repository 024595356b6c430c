"""The dead letters of one share-partition: which records must have one, and which must not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.testkit.checker.events import DeadLetter, Share
from tests.testkit.checker.invariants import Invariant, broken
from tests.testkit.checker.stored import StoredState


class ExpectedLetters:
    """The letters in the log, and the failed records that must have one before they are archived.

    `required`: the group has a dead letter topic, and keeps records until their letters are written.

    An administrator who alters offsets permits a second letter of each record.
    """

    def __init__(self, share: Share, stored: StoredState, *, required: bool) -> None:
        self._share = share
        self._stored = stored
        self._required = required
        self._failed: set[int] = set()
        self._rejected: set[int] = set()
        self._written: Counter[int] = Counter()
        self._resets = 0

    @property
    def restarted(self) -> bool:
        """Whether earlier requests of members are not known any more."""
        return self._resets > 0

    def reset(self) -> None:
        """Starts over, but letters of before may still be written."""
        self._failed.clear()
        self._rejected.clear()
        self._resets += 1

    def rejected(self, offset: int) -> None:
        """Adds a rejection that was applied: no later acceptance replaces it."""
        self._rejected.add(offset)

    def fail(self, offsets: Iterable[int]) -> None:
        """Adds records that the state lists as failed."""
        self._failed.update(offsets)

    def written(self, letter: DeadLetter) -> None:
        """Adds a letter. Raises Violation."""
        offset = letter.offset
        self._written[offset] += 1
        if self._written[offset] > 1 + self._resets:
            broken(Invariant.LETTER_ONCE, f"{self._share} {offset} has another letter")
        # An acceptance whose response was an error may be stored, although the record fails later.
        waits = self._stored.archiving(offset) or offset < self._stored.start
        if self._required and not self._resets and not waits:
            broken(Invariant.LETTER_OF_FAILURE, f"{self._share} {offset} is not archiving")

    def check(self, offsets: Iterable[int], accepted: Iterable[int]) -> None:
        """Checks that failed records have letters or still wait for them.

        If a rejection was applied although its response was an error, a member may have `accepted` the record
        afterwards.
        """
        if not self._required:
            return
        for offset in self._failed.intersection(offsets):
            waits = self._stored.archiving(offset)
            replaced = offset in accepted and offset not in self._rejected
            if not (waits or self._written[offset] or replaced):
                broken(Invariant.LETTER_ONCE, f"{self._share} {offset} is archived without a letter")
