"""Changes in effect that could not be written: locks that ran out while the share coordinator was away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from sharebroker_server.share_partition_leader.config import LONGEST_RETRY_DELAY
from sharebroker_server.share_partition_leader.core.in_flight import Transition


class Owed:
    """They are written again, by `write`, until they are; whoever holds them must not be forgotten meanwhile.

    They may be late: of two values of an offset the later one is that of the higher delivery count.
    """

    def __init__(self, write: Callable[[Transition], None]) -> None:
        self._write = write
        self._transitions: list[Transition] = []
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._transitions)

    def note(self, failed: Iterable[Transition]) -> None:
        """Of transitions whose write failed, keep those that were not rolled back."""
        self._transitions += [
            transition for transition in failed if transition.batches and not transition.runs
        ]
        if self._transitions and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LONGEST_RETRY_DELAY, self.pay)

    def pay(self) -> None:
        """Write what is owed."""
        self.forgive()
        transitions, self._transitions = self._transitions, []
        for transition in transitions:
            self._write(transition)

    def forgive(self) -> None:
        """Try no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
