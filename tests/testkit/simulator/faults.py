"""Injects faults: one random source decides about every message and command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

KEEPALIVE: Final = 10.0
"""Seconds until a connection breaks after a lost message, if the loss is not detected earlier."""

STORE: Final = "store"
"""The name of the store, for `cut`."""


class CommandOutcome(Enum):
    """The outcome of a command to the store."""

    DONE = "done"
    REFUSED = "refused"
    """Not executed, with proof."""
    LOST = "lost"
    """Not executed, without proof."""
    REPLY_LOST = "done unheard"
    """Executed, but the reply is lost."""
    LATE = "done late"
    """Executed long after its sender gave up."""


_FAULTS: Final = (CommandOutcome.REFUSED, CommandOutcome.LOST, CommandOutcome.REPLY_LOST, CommandOutcome.LATE)


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of faults of messages and commands; times in seconds.

    `silence` is the longest time until a lost message shows as a broken connection; a third of the losses
    show only by keepalive, after KEEPALIVE. The second copy of a duplicated message arrives within `again`.
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
    """Decides with `random`; `heal` ends all faults."""

    def __init__(self, random: Random, rates: Rates) -> None:
        self.rates = rates
        self._random = random
        self._cuts: set[frozenset[str]] = set()

    def cut(self, one: str, other: str) -> None:
        """Drops all messages between two processes, or a process and the store."""
        self._cuts.add(frozenset((one, other)))

    def uncut(self, one: str, other: str) -> None:
        """Ends a cut."""
        self._cuts.discard(frozenset((one, other)))

    def heal(self) -> None:
        """Ends all faults."""
        self._cuts.clear()
        self.rates = NO_RATES

    def delay(self) -> float:
        """Returns the latency of a message in seconds."""
        random, rates = self._random.random, self.rates
        longest = rates.slowness if rates.slow and random() < rates.slow else rates.quick
        return random() * longest + 1e-5

    def copies(self, sender: str, receiver: str) -> int:
        """Returns the number of copies of a message that arrive."""
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
        """Returns the latency of the second copy of a message."""
        return self._random.random() * self.rates.again + 1e-5

    def silence(self) -> float:
        """Returns the seconds until a loss shows."""
        drawn = self._random.random()
        return KEEPALIVE if drawn < 1 / 3 else drawn * self.rates.silence

    def of_command(self, node: str) -> CommandOutcome:
        """Returns the outcome of a node's next command to the store."""
        if self._cuts and frozenset((node, STORE)) in self._cuts:
            return self._random.choice((CommandOutcome.REFUSED, CommandOutcome.LOST))
        if self.rates.command and self._random.random() < self.rates.command:
            return self._random.choice(_FAULTS)
        return CommandOutcome.DONE
