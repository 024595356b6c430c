"""The faults and changes of a run as data: shrinking removes parts to find those that a failure needs."""

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

QUEUE: Final = "dlq.orders"

Layout = tuple[frozenset[str], ...]
"""The roles of each process."""

_ALL: Final = frozenset(ROLES)
TOGETHER: Final[Layout] = (_ALL, _ALL)

SPLIT: Final[tuple[Layout, ...]] = tuple(
    (frozenset((GATEWAY, other)), _ALL - {GATEWAY, other}, _ALL)
    for other in (GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR)
)
"""Every role has two processes; a call between roles goes to the other process, or stays."""

Temper = Mapping[Verdict | None, int]
"""A member's acknowledgements of a record, with their percentages; None means none."""

USUAL: Final[Temper] = {
    Verdict.ACCEPT: 60,
    Verdict.RELEASE: 15,
    Verdict.REJECT: 5,
    Verdict.RENEW: 5,
    None: 15,
}


class Kind(Enum):
    """A fault of a process, of its connections, or of the store."""

    KILL = "kill"
    FREEZE = "freeze"
    CUT_OFF = "cut off from the store"
    CUT = "cut off from the other processes"
    RESTART = "restart"
    FULL = "the store rejects writes"


class Way(Enum):
    """The API by which a member consumes."""

    CALLS = "by Acquire and Acknowledge"
    STREAM = "by Consume"
    SESSION = "by ShareFetch and ShareAcknowledge"


class Work(Enum):
    """A change by an administrator."""

    ALTER = "AlterShareGroupOffsets"
    FORGET = "DeleteShareGroupOffsets"
    DELETE = "DeleteGroups"


@dataclass(frozen=True, slots=True)
class Change:
    """A change `at` seconds after the faults begin."""

    at: float
    work: Work
    group: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Begins `at` seconds after the first fault and `lasts` some; a stopped process has `patience`
    seconds to stop.
    """

    at: float
    kind: Kind
    process: int
    lasts: float
    patience: float


@dataclass(frozen=True, slots=True)
class Queue:
    """The dead letter topic of all groups, and how they use it.

    `created` and `closed` are seconds after the faults begin: the topic is created then (0: before), and is
    not writable for `closed_for` seconds. `attempts`: the delivery limit of the groups.
    """

    partitions: int = 1
    copy: bool = False
    holds: bool = True
    attempts: int = 5
    created: float = 0.0
    closed: float = 0.0
    closed_for: float = 0.0

    @property
    def group_configs(self) -> dict[str, str]:
        """The configs of each group."""
        return {
            "errors.deadletterqueue.topic.name": QUEUE,
            "errors.deadletterqueue.copy.record.enable": str(self.copy).lower(),
            "errors.deadletterqueue.failure.policy": "hold" if self.holds else "archive",
            "share.delivery.count.limit": str(self.attempts),
        }


class Step(Enum):
    """A step of a dead letter; the values of two are the stored states."""

    SENT = 1
    """AppendDeadLetters is sent to another process."""
    LETTER = 2
    """The letter is in the store, and its response is not sent."""
    ARCHIVING = 3
    ARCHIVED = 4
    RELEASED = 5
    """A release or lock timeout of any record is in the store."""


@dataclass(frozen=True, slots=True)
class Trap:
    """A fault that begins `at` seconds after a step is reached for the `number`-th time.

    The fault is that of the leader of the record, of the dead letter topic with `at_queue`. `held` is the
    time in seconds by which that request is late.
    """

    step: Step
    number: int
    fault: Fault | None
    at_queue: bool
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a run: `fault_seconds` of faults, in which a producer publishes `pace` times a
    second.

    `farewell`: at the end processes stop in order; logs and group epochs are also checked during the run.
    """

    groups: tuple[str, ...]
    fault_seconds: float
    pace: float
    farewell: bool


LARGE: Final = Scale(GROUPS, 8.0, 2.5, farewell=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """Parts have names: f0, f1 … faults, m0 … members, p0 … producers, i0 an idempotent producer, r0 one
    that repeats records with message ids, a0 one of expired records, s0 one of scheduled records, t0 an
    administrator who retries failed records, d0 one who redrives dead letters, b0 one who resumes groups that
    their circuit breakers paused, n0 one who creates a topic again, k0 a topic in
    a Kafka cluster, j0 a member with durable locks, queue
    the dead letter topic, x0 … traps, grow, split, change, searching, log, lost, twice, slow, command.
    Without
    `split` every process has every role.

    `log`: the state of share groups is in the logs of the partitions.
    `searching`: processes probe for dead peers; else leases expire. `patience`: seconds in which
    state has to be written, with all retries. `shards`: of each coordinator, one at one process or two at
    two.
    `hesitating`: the member with durable locks releases some records, and keeps those whose release fails;
    else it returns some without blame.
    `members` are (name, group, way to consume); a third partition is added at `grow`, None: never.
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
    idempotent: tuple[str, ...] = ()
    repeating: tuple[str, ...] = ()
    aged: tuple[str, ...] = ()
    jobs: tuple[tuple[str, Way], ...] = ()
    hesitating: bool = False
    scheduled: tuple[str, ...] = ()
    retrying: tuple[str, ...] = ()
    redriving: tuple[str, ...] = ()
    breaking: tuple[str, ...] = ()
    recreating: tuple[str, ...] = ()
    following: tuple[str, ...] = ()
    queue: Queue | None = None
    traps: dict[str, Trap] = field(default_factory=dict)
    log: bool = False

    @property
    def retried_group(self) -> str:
        """The group whose records are retried or redriven: one that has members, if any has."""
        return self.members[0][1] if self.members else self.scale.groups[0]

    @property
    def parts(self) -> list[str]:
        """Returns the names of all removable parts, in the order in which to try them."""
        rates = [rate for rate in _RATES if getattr(self.rates, rate)]
        members = [name for name, _, _ in self.members]
        more = {
            "grow": self.grow is not None,
            "split": self.layout is not TOGETHER,
            "change": self.change,
            "searching": self.searching,
            "queue": self.queue,
            "log": self.log,
        }
        return [
            *self.faults,
            *self.traps,
            *members,
            *self.producers,
            *self.idempotent,
            *self.repeating,
            *self.aged,
            *(name for name, _ in self.jobs),
            *self.scheduled,
            *self.retrying,
            *self.redriving,
            *self.breaking,
            *self.recreating,
            *self.following,
            *(name for name, is_so in more.items() if is_so),
            *rates,
        ]

    def without(self, parts: Collection[str]) -> Plan:
        """Returns the plan without some parts."""
        return replace(
            self,
            rates=replace(self.rates, **{rate: 0.0 for rate in _RATES if rate in parts}),
            faults={name: fault for name, fault in self.faults.items() if name not in parts},
            members=tuple(member for member in self.members if member[0] not in parts),
            producers=tuple(name for name in self.producers if name not in parts),
            idempotent=tuple(name for name in self.idempotent if name not in parts),
            repeating=tuple(name for name in self.repeating if name not in parts),
            aged=tuple(name for name in self.aged if name not in parts),
            jobs=tuple(job for job in self.jobs if job[0] not in parts),
            scheduled=tuple(name for name in self.scheduled if name not in parts),
            retrying=tuple(name for name in self.retrying if name not in parts),
            redriving=tuple(name for name in self.redriving if not {name, "queue"} & {*parts}),
            breaking=tuple(name for name in self.breaking if name not in parts),
            recreating=tuple(name for name in self.recreating if name not in parts),
            following=tuple(name for name in self.following if name not in parts),
            queue=None if "queue" in parts else self.queue,
            traps={name: trap for name, trap in self.traps.items() if name not in parts},
            grow=None if "grow" in parts else self.grow,
            layout=TOGETHER if "split" in parts else self.layout,
            change=None if "change" in parts else self.change,
            searching=self.searching and "searching" not in parts,
            log=self.log and "log" not in parts,
        )
