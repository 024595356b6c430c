"""What befalls a run, as data: parts of it can be left out, to find out which of them a failure needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

from libs.testkit.simulator.faults import NO_RATES, Rates
from tests.simulation.process import LEASE

GROUPS: Final = ("billing", "shipping")

TROUBLE: Final = 8.0
"""Seconds of faults."""

_PAUSE: Final = 1.2
"""Seconds between two faults, on average."""

_MOST_STOP: Final = 5.0
"""Seconds that a process is given to stop, at most."""

TROUBLES: Final = (
    NO_RATES,
    Rates(),
    Rates(lost=0.05, slow=0.1, command=0.06),
    Rates(slow=0.15, slowness=4.0, command=0.1),
)
"""How badly messages and commands fare, beside what befalls processes."""

_RATES: Final = ("lost", "twice", "slow", "command")


class Kind(Enum):
    """A fault of a process, or of its ways to others."""

    KILL = "kill"
    FREEZE = "freeze"
    CUT_OFF = "cut off from the store"
    CUT = "cut off from the other processes"
    RESTART = "restart"


_KINDS: Final = (
    Kind.KILL,
    Kind.KILL,
    Kind.FREEZE,
    Kind.FREEZE,
    Kind.CUT_OFF,
    Kind.CUT,
    Kind.RESTART,
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Begins `at` seconds of the trouble and `lasts` some; who is stopped has `patience` seconds for it."""

    at: float
    kind: Kind
    process: int
    lasts: float
    patience: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Parts have names: f0, f1 … faults, m0 … members, p0 … producers, grow, lost, twice, slow, command.

    `members` are (name, group, by a stream?); a third partition is added at `grow`, None: never.
    """

    rates: Rates
    faults: dict[str, Fault]
    members: tuple[tuple[str, str, bool], ...]
    producers: tuple[str, ...]
    partitions: int
    grow: float | None

    @classmethod
    def drawn(cls, seed: int, troubles: Sequence[Rates] = TROUBLES) -> Plan:
        """The plan of a seed; chance takes one of `troubles`."""
        random = Random(f"plan {seed}")
        members = tuple((f"m{n}", random.choice(GROUPS), random.random() < 0.5) for n in range(4))
        grow, partitions = random.uniform(0.0, TROUBLE), random.randint(1, 2)
        return cls(random.choice(troubles), _faults(random), members, ("p0", "p1"), partitions, grow)

    @property
    def parts(self) -> list[str]:
        """The names of all that could be left out, in the order in which to try."""
        rates = [rate for rate in _RATES if getattr(self.rates, rate)]
        members = [name for name, _, _ in self.members]
        return [*self.faults, *members, *self.producers, *(["grow"] if self.grow is not None else []), *rates]

    def without(self, parts: Collection[str]) -> Plan:
        """The plan that lacks some parts."""
        return replace(
            self,
            rates=replace(self.rates, **{rate: 0.0 for rate in _RATES if rate in parts}),
            faults={name: fault for name, fault in self.faults.items() if name not in parts},
            members=tuple(member for member in self.members if member[0] not in parts),
            producers=tuple(name for name in self.producers if name not in parts),
            grow=None if "grow" in parts else self.grow,
        )


def _faults(random: Random) -> dict[str, Fault]:
    faults: dict[str, Fault] = {}
    at = random.expovariate(1 / _PAUSE)
    while at < TROUBLE:
        kind, process = random.choice(_KINDS), random.randrange(2)
        lasts, patience = random.uniform(0.0, 2 * LEASE), random.uniform(0.5, _MOST_STOP)
        faults[f"f{len(faults)}"] = Fault(at, kind, process, lasts, patience)
        at += random.expovariate(1 / _PAUSE)
    return faults
