"""What goes wrong, as chance has it: one random source decides about every message and command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

KEEPALIVE: Final = 10.0
"""Seconds until a connection that lost a message breaks, if nothing shows the loss earlier."""

STORE: Final = "store"
"""The name of the store, for `cut`."""


class Fate(Enum):
    """What becomes of a command to the store."""

    DONE = "done"
    REFUSED = "refused"
    """Not done, and surely so."""
    LOST = "lost"
    """Not done, and nobody can tell."""
    UNHEARD = "done unheard"
    """Done, and nobody can tell."""
    LATE = "done late"
    """Done long after its sender gave up."""


_TROUBLE: Final = (Fate.REFUSED, Fate.LOST, Fate.UNHEARD, Fate.LATE)


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of messages and commands that fare badly; times in seconds.

    `silence` is how long it takes at most until the loss of a message shows itself as a broken connection; a
    third of the losses show only when the connection is asked whether it still lives: after KEEPALIVE. What
    comes twice comes the second time within `again`, as what is tried once more may.
    """

    lost: float = 0.01
    twice: float = 0.005
    slow: float = 0.03
    command: float = 0.02
    quick: float = 0.001
    slowness: float = 0.5
    silence: float = 1.0
    again: float = 0.001


NO_RATES: Final = Rates(lost=0.0, twice=0.0, slow=0.0, command=0.0)


class Faults:
    """Decides by `random`; `heal` ends all trouble."""

    def __init__(self, random: Random, rates: Rates) -> None:
        self.rates = rates
        self._random = random
        self._cuts: set[frozenset[str]] = set()

    def cut(self, one: str, other: str) -> None:
        """Let nothing through between two processes, or a process and the store."""
        self._cuts.add(frozenset((one, other)))

    def mend(self, one: str, other: str) -> None:
        """Let everything through again."""
        self._cuts.discard(frozenset((one, other)))

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._cuts.clear()
        self.rates = NO_RATES

    def delay(self) -> float:
        """Seconds that a message takes."""
        random, rates = self._random.random, self.rates
        longest = rates.slowness if rates.slow and random() < rates.slow else rates.quick
        return random() * longest + 1e-5

    def copies(self, sender: str, receiver: str) -> int:
        """How often a message arrives."""
        if self._cuts and frozenset((sender, receiver)) in self._cuts:
            return 0
        rates = self.rates
        if not rates.lost and not rates.twice:
            return 1
        drawn = self._random.random()
        if drawn < rates.lost:
            return 0
        return 2 if drawn > 1.0 - rates.twice else 1

    def again(self) -> float:
        """Seconds that the second copy of a message takes."""
        return self._random.random() * self.rates.again + 1e-5

    def silence(self) -> float:
        """Seconds until a loss shows."""
        drawn = self._random.random()
        return KEEPALIVE if drawn < 1 / 3 else drawn * self.rates.silence

    def of_command(self, node: str) -> Fate:
        """What becomes of a node's next command to the store."""
        if self._cuts and frozenset((node, STORE)) in self._cuts:
            return self._random.choice((Fate.REFUSED, Fate.LOST))
        if self.rates.command and self._random.random() < self.rates.command:
            return self._random.choice(_TROUBLE)
        return Fate.DONE
