"""What befalls a run, as data: parts of it can be left out, to find out which of them a failure needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from sharebroker_server.routing.router import GATEWAY, GROUP_COORDINATOR, LEADER, ROLES, SHARE_COORDINATOR
from tests.testkit.checker.events import Verdict
from tests.testkit.simulator.faults import Rates

GROUPS: Final = ("billing", "shipping")

MOST_PARTITIONS: Final = 3

_RATES: Final = ("lost", "twice", "slow", "command")

Layout = tuple[frozenset[str], ...]
"""The roles of each process."""

_ALL: Final = frozenset(ROLES)
TOGETHER: Final[Layout] = (_ALL, _ALL)

SPLIT: Final[tuple[Layout, ...]] = tuple(
    (frozenset((GATEWAY, other)), _ALL - {GATEWAY, other}, _ALL)
    for other in (GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR)
)
"""Every role has two processes; a call of one role to another goes from process to process, or stays."""

Temper = Mapping[Verdict | None, int]
"""What a member does with a record, and how often in a hundred; None forgets it."""

USUAL: Final[Temper] = {
    Verdict.ACCEPT: 60,
    Verdict.RELEASE: 15,
    Verdict.REJECT: 5,
    Verdict.RENEW: 5,
    None: 15,
}


class Kind(Enum):
    """A fault of a process, of its ways to others, or of the store."""

    KILL = "kill"
    FREEZE = "freeze"
    CUT_OFF = "cut off from the store"
    CUT = "cut off from the other processes"
    RESTART = "restart"
    FULL = "the store takes nothing more"


class Way(Enum):
    """How a member consumes."""

    CALLS = "by Acquire and Acknowledge"
    STREAM = "by Consume"
    SESSION = "by ShareFetch and ShareAcknowledge"


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
class Scale:
    """How much there is of a run: `trouble` seconds, in which a producer publishes `pace` times a second.

    `farewell`: processes stop in the end and show what they leave; what lies in the logs is looked at in the
    midst of work, too, and the epochs of groups beside it.
    """

    groups: tuple[str, ...]
    trouble: float
    pace: float
    farewell: bool


LARGE: Final = Scale(GROUPS, 8.0, 2.5, farewell=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """Parts have names: f0, f1 … faults, m0 … members, p0 … producers, grow, split, change, searching,
    lost, twice, slow, command. Without `split` every process has every role.

    `searching`: processes look for dead ones; else the leases of those run out. `patience`: seconds in which
    state is to be written, with all tries. `shards`: of each coordinator, one at one process or two at two.
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
    scale: Scale = LARGE
    temper: Temper = field(default_factory=lambda: USUAL)
    searching: bool = True
    patience: float = 2.0
    shards: int = 2

    @property
    def parts(self) -> list[str]:
        """The names of all that could be left out, in the order in which to try."""
        rates = [rate for rate in _RATES if getattr(self.rates, rate)]
        members = [name for name, _, _ in self.members]
        more = {
            "grow": self.grow is not None,
            "split": self.layout is not TOGETHER,
            "change": self.change,
            "searching": self.searching,
        }
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
            searching=self.searching and "searching" not in parts,
        )
