"""What befalls a run, as data: parts of it can be left out, to find out which of them a failure needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

from libs.rpc.router import GATEWAY, GROUP_COORDINATOR, LEADER, ROLES, SHARE_COORDINATOR
from libs.testkit.simulator.faults import NO_RATES, Rates
from tests.simulation.process import LEASE

GROUPS: Final = ("billing", "shipping")

MOST_PARTITIONS: Final = 3

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

Layout = tuple[frozenset[str], ...]
"""The roles of each process."""

_ALL: Final = frozenset(ROLES)
TOGETHER: Final[Layout] = (_ALL, _ALL)

LAYOUTS: Final[tuple[Layout, ...]] = (
    TOGETHER,
    TOGETHER,
    *(
        (frozenset((GATEWAY, other)), _ALL - {GATEWAY, other}, _ALL)
        for other in (GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR)
    ),
)
"""Every role has two processes; a call of one role to another goes from process to process, or stays."""


class Kind(Enum):
    """A fault of a process, of its ways to others, or of the store."""

    KILL = "kill"
    FREEZE = "freeze"
    CUT_OFF = "cut off from the store"
    CUT = "cut off from the other processes"
    RESTART = "restart"
    FULL = "the store takes nothing more"


_KINDS: Final = (
    Kind.KILL,
    Kind.KILL,
    Kind.FREEZE,
    Kind.FREEZE,
    Kind.CUT_OFF,
    Kind.CUT,
    Kind.RESTART,
    Kind.FULL,
)


class Way(Enum):
    """How a member consumes."""

    CALLS = "by Acquire and Acknowledge"
    STREAM = "by Consume"
    SESSION = "by ShareFetch and ShareAcknowledge"


_WAYS: Final = (Way.CALLS, Way.CALLS, Way.STREAM, Way.STREAM, Way.SESSION)


class Work(Enum):
    """What an administrator does."""

    ALTER = "AlterShareGroupOffsets"
    FORGET = "DeleteShareGroupOffsets"
    DELETE = "DeleteGroups"


@dataclass(frozen=True, slots=True)
class Change:
    """An administrator comes `at` seconds of the trouble."""

    at: float
    work: Work
    group: str


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
    """Parts have names: f0, f1 … faults, m0 … members, p0 … producers, grow, split, change, lost, twice,
    slow, command. Without `split` every process has every role.

    `members` are (name, group, how it consumes); a third partition is added at `grow`, None: never.
    """

    rates: Rates
    faults: dict[str, Fault]
    members: tuple[tuple[str, str, Way], ...]
    producers: tuple[str, ...]
    partitions: int
    grow: float | None
    layout: Layout = TOGETHER
    change: Change | None = None

    @classmethod
    def drawn(cls, seed: int, troubles: Sequence[Rates] = TROUBLES) -> Plan:
        """The plan of a seed; chance takes one of `troubles`."""
        random = Random(f"plan {seed}")
        members = tuple((f"m{n}", random.choice(GROUPS), random.choice(_WAYS)) for n in range(4))
        grow, partitions = random.uniform(0.0, TROUBLE), random.randint(1, 2)
        rates, layout = random.choice(troubles), random.choice(LAYOUTS)
        faults, change = _faults(random, len(layout)), _change(random)
        return cls(rates, faults, members, ("p0", "p1"), partitions, grow, layout, change)

    @property
    def parts(self) -> list[str]:
        """The names of all that could be left out, in the order in which to try."""
        rates = [rate for rate in _RATES if getattr(self.rates, rate)]
        members = [name for name, _, _ in self.members]
        more = {"grow": self.grow is not None, "split": self.layout is not TOGETHER, "change": self.change}
        return [
            *self.faults,
            *members,
            *self.producers,
            *(name for name, is_so in more.items() if is_so),
            *rates,
        ]

    def without(self, parts: Collection[str]) -> Plan:
        """The plan that lacks some parts."""
        return replace(
            self,
            rates=replace(self.rates, **{rate: 0.0 for rate in _RATES if rate in parts}),
            faults={name: fault for name, fault in self.faults.items() if name not in parts},
            members=tuple(member for member in self.members if member[0] not in parts),
            producers=tuple(name for name in self.producers if name not in parts),
            grow=None if "grow" in parts else self.grow,
            layout=TOGETHER if "split" in parts else self.layout,
            change=None if "change" in parts else self.change,
        )


def _change(random: Random) -> Change | None:
    """In one of three runs, early: a group is without members only seconds after they left."""
    change = Change(random.uniform(0.0, TROUBLE / 2), random.choice(tuple(Work)), random.choice(GROUPS))
    return change if random.random() < 1 / 3 else None


def _faults(random: Random, processes: int) -> dict[str, Fault]:
    faults: dict[str, Fault] = {}
    at = random.expovariate(1 / _PAUSE)
    while at < TROUBLE:
        kind, process = random.choice(_KINDS), random.randrange(processes)
        lasts, patience = random.uniform(0.0, 2 * LEASE), random.uniform(0.5, _MOST_STOP)
        faults[f"f{len(faults)}"] = Fault(at, kind, process, lasts, patience)
        at += random.expovariate(1 / _PAUSE)
    return faults
