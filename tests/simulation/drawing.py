"""Draws the plan of a seed: seldom a large system, else a small one with one theme (swarm testing)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.simulation.plan import (
    GROUPS,
    LARGE,
    SPLIT,
    TOGETHER,
    USUAL,
    Change,
    Fault,
    Kind,
    Plan,
    Queue,
    Scale,
    Step,
    Temper,
    Trap,
    Way,
    Work,
)
from tests.simulation.process import LEASE
from tests.testkit.checker.events import Verdict
from tests.testkit.simulator.faults import NO_RATES, Rates

LARGE_EVERY: Final = 100
"""One in this many seeds has the large system."""

PIPELINED: Final = 1 / 8
"""The share of small systems that have an idempotent producer as well."""

REPEATED: Final = 1 / 8
"""The share of small systems that have a producer that repeats its records."""

AGED: Final = 1 / 8
"""The share of small systems without an idempotent producer that have a producer of expired records."""

JOBS: Final = 1 / 8
"""The share of small systems without an administrator that have a member with durable locks."""

HESITATING: Final = 3 / 4
"""The share of these whose member releases records and keeps those whose release fails."""

SCHEDULED: Final = 1 / 8
"""The share of small systems that have a producer of scheduled records."""

RETRYING: Final = 1 / 8
"""The share of small systems whose failed records are retried; they have two groups."""

QUEUED: Final = 1 / 8
"""The share of small systems whose groups have a dead letter topic; the large system always has one."""

LOGGED: Final = 0.5
"""Share of systems that keep the state of share groups in the logs of the partitions."""

REDRIVING: Final = 1 / 2
"""The share of systems with a dead letter topic whose letters are redriven; they have two groups."""

BREAKING: Final = 1 / 8
"""The share of small systems without both whose groups have circuit breakers."""

RECREATING: Final = 1 / 8
"""The share of small systems with a topic that is created again."""

FOLLOWING: Final = 1 / 8
"""The share of small systems with a topic whose records are in a Kafka cluster."""

OFTEN_REJECTED: Final = 60
"""How often a member rejects a record in them, as a weight beside the others of its temper."""

_REJECTED: Final = (20, 60)
"""The same for members of groups with a dead letter topic."""

_LONGER: Final = 1.0
"""Seconds of faults in addition: letters follow the deliveries."""

_EXPIRED: Final = 1 / 2
"""The share of systems with a dead letter topic that have a producer of expired records."""

_TRAPPED: Final = {
    Step.SENT: (Kind.RESTART, Kind.RESTART, Kind.KILL, Kind.FREEZE),
    # The letter is written, and the end of its record is not.
    Step.LETTER: (Kind.CUT_OFF, Kind.CUT_OFF, Kind.KILL, Kind.FREEZE),
    Step.ARCHIVING: (Kind.KILL, Kind.FREEZE, Kind.CUT_OFF, Kind.CUT),
    Step.ARCHIVED: (Kind.KILL, Kind.FREEZE, Kind.CUT_OFF, Kind.RESTART),
}
"""The faults at each step of a letter."""

_LONGEST_HELD: Final = 4.0
"""The longest delay of a request with letters, in seconds: beyond an ordered hand-over."""

_LONGEST_CLOSED: Final = 6.0
"""The longest time for which the dead letter topic is not writable, in seconds."""

_PAUSE: Final = 1.2
"""Seconds between two faults of the large system, on average."""

_PATIENCE: Final = (2.0, 5.0)
"""Below a lease: state often cannot be written. Above: it may be retried under a former one."""

_KILLED_AFTER: Final = (2.5, 6.0)
"""Seconds from a release to the death of its leader."""

_MOST_STOP: Final = 5.0
"""Maximum time that a process is given to stop, in seconds."""

_TROUBLES: Final = (
    NO_RATES,
    Rates(),
    Rates(lost=0.05, slow=0.1, command=0.06),
    Rates(slow=0.15, slowness=4.0, command=0.1),
)
"""How unreliable messages and commands are, in addition to the faults of processes."""

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

_WAYS: Final = (Way.CALLS, Way.CALLS, Way.STREAM, Way.STREAM, Way.SESSION)

_FORGETFUL: Final[Temper] = {Verdict.ACCEPT: 35, Verdict.RELEASE: 15, Verdict.RENEW: 10, None: 40}

_TEMPERS: Final[tuple[Temper, ...]] = (
    USUAL,
    {Verdict.ACCEPT: 30, Verdict.RELEASE: 60, Verdict.REJECT: 10},
    {Verdict.ACCEPT: 40, Verdict.RENEW: 20, None: 40},
    {Verdict.ACCEPT: 100},
)

_CROWD: Final = (1, 2, 2, 3)


@dataclass(frozen=True, slots=True)
class Theme:
    """The theme of a small system: up to `most` faults of some `kinds`, lasting this many `leases`.

    `searching`: how often processes probe for dead peers, which takes as many commands as everything else.
    `change`: how often an administrator acts. `wide`: how often there are two groups and two partitions.
    `early`: how often the first fault is there from the start. `crowd`: how many members there are.
    """

    kinds: tuple[Kind, ...]
    most: int
    leases: tuple[float, float]
    rates: tuple[Rates, ...]
    searching: float = 0.2
    change: float = 0.1
    wide: float = 0.1
    early: float = 0.0
    crowd: tuple[int, ...] = _CROWD
    ways: tuple[Way, ...] = _WAYS
    tempers: tuple[Temper, ...] = _TEMPERS


_QUIET: Final = (NO_RATES, Rates())

_STALLED: Final = Theme((Kind.FREEZE, Kind.CUT_OFF), 2, (0.9, 1.7), _QUIET)

_OUTLIVED: Final = Theme(
    (Kind.FREEZE,),
    1,
    (1.3, 2.0),
    _QUIET,
    crowd=(2, 3),
    ways=(Way.CALLS, Way.STREAM, Way.STREAM),
    tempers=(_FORGETFUL,),
)
"""A process that resumes finds records to deliver that another process has delivered already."""

_FULL: Final = Theme((Kind.FULL,), 2, (0.1, 1.2), (NO_RATES, Rates(command=0.1)), early=0.5)
"""Sometimes for longer than a state write may be retried."""

_UNKNOWN: Final = Theme((), 0, (0.0, 0.0), (Rates(command=0.25),), change=0.4, wide=1.0)
"""Many operations begin, some by an administrator, whose outcome is unknown."""

_TWICE: Final = Theme(
    (), 0, (0.0, 0.0), (Rates(lost=0.0, twice=0.7, slow=0.0, again=2.0),), change=0.0, wide=0.7
)
"""Completed requests are repeated after others have continued."""

_FORGOTTEN: Final = Theme(
    (), 0, (0.0, 0.0), (NO_RATES,), crowd=(2, 3), ways=(Way.CALLS,), tempers=(_FORGETFUL,)
)
"""Only the members are faulty: they hold records until their locks time out, and acknowledge late."""

_THEMES: Final = (
    Theme((Kind.KILL, Kind.RESTART), 2, (0.0, 0.7), _QUIET, searching=0.5),
    _STALLED,
    _OUTLIVED,
    _OUTLIVED,
    _OUTLIVED,
    Theme((Kind.CUT, Kind.CUT_OFF), 2, (0.3, 1.3), _QUIET),
    _FULL,
    _FULL,
    Theme((), 0, (0.0, 0.0), (Rates(lost=0.05, slow=0.1, command=0.06),)),
    # A retry arrives when another process has taken over.
    Theme((Kind.FREEZE, Kind.CUT_OFF), 2, (0.9, 1.4), (Rates(lost=0.08, slow=0.1, slowness=1.5),)),
    Theme((Kind.KILL,), 2, (0.5, 1.2), (Rates(slow=0.15, slowness=4.0),), searching=0.5),
    _UNKNOWN,
    _TWICE,
    _FORGOTTEN,
)


def drawn(seed: int) -> Plan:
    """Returns the plan of a seed."""
    return replace(_drawn(seed), log=Random(f"log {seed}").random() < LOGGED)


def _drawn(seed: int) -> Plan:
    random = Random(f"plan {seed}")
    redriving = ("d0",) if Random(f"redriving {seed}").random() < REDRIVING else ()
    if seed % LARGE_EVERY == 0:
        return replace(_queued(_large(random), Random(f"queued {seed}")), redriving=redriving)
    plan = _small(random)
    if Random(f"repeating {seed}").random() < REPEATED:
        plan = replace(plan, repeating=("r0",))
    # An administrator's change ends locks.
    jobs = Random(f"jobs {seed}")
    if plan.change is None and jobs.random() < JOBS:
        plan = replace(plan, jobs=(("j0", jobs.choice((Way.CALLS, Way.STREAM))),))
    if Random(f"scheduled {seed}").random() < SCHEDULED:
        plan = replace(plan, scheduled=("s0",))
    if Random(f"retrying {seed}").random() < RETRYING:
        plan = _retried(plan)
    queued = Random(f"queued {seed}")
    if queued.random() < QUEUED:
        plan = _queued(plan, queued)
        if redriving and not plan.retrying:
            plan = replace(plan, redriving=redriving, scale=replace(plan.scale, groups=GROUPS))
    # An administrator's change sends members away. A member with durable locks keeps its records.
    if plan.change is None and not plan.jobs and Random(f"breaking {seed}").random() < BREAKING:
        plan = _breaking(plan)
    elif plan.queue is None and plan.jobs and jobs.random() < HESITATING:
        plan = _hesitating(plan, jobs)
    if plan.queue is None and Random(f"recreating {seed}").random() < RECREATING:
        plan = replace(plan, recreating=("n0",))
    if Random(f"following {seed}").random() < FOLLOWING:
        plan = replace(plan, following=("k0",))
    # The records of an idempotent producer have timestamps of 1970.
    if plan.idempotent or plan.aged or Random(f"aged {seed}").random() >= AGED:
        return plan
    return replace(plan, aged=("a0",))


def _breaking(plan: Plan) -> Plan:
    """Adds circuit breakers; many records are rejected."""
    return replace(plan, breaking=("b0",), temper={**plan.temper, Verdict.REJECT: OFTEN_REJECTED})


def _hesitating(plan: Plan, random: Random) -> Plan:
    """Cuts the leader off when a release is stored, so that it fails, and then kills the leader."""
    number = random.choice((1, 1, 2))
    cut = Fault(0.0, Kind.CUT, 0, _PATIENCE[0] + random.uniform(0.2, 1.0), 0.0)
    killed = Fault(random.uniform(*_KILLED_AFTER), Kind.KILL, 0, LEASE, 0.0)
    traps = {f"x{n}": Trap(Step.RELEASED, number, fault, False) for n, fault in enumerate((cut, killed))}
    return replace(
        plan,
        hesitating=True,
        rates=NO_RATES,
        faults={},
        traps=traps,
        layout=random.choice(SPLIT),
        patience=_PATIENCE[0],
        scale=replace(plan.scale, fault_seconds=plan.scale.fault_seconds + _KILLED_AFTER[1]),
    )


def _retried(plan: Plan) -> Plan:
    """Adds an administrator who retries failed records; many records are rejected."""
    scale, temper = replace(plan.scale, groups=GROUPS), {**plan.temper, Verdict.REJECT: OFTEN_REJECTED}
    return replace(plan, retrying=("t0",), scale=scale, temper=temper)


def _queued(plan: Plan, random: Random) -> Plan:
    """Adds a dead letter topic; members reject records, and others reach a low delivery limit."""
    traps = {f"x{number}": _trap(random) for number in range(random.choice((0, 1, 1, 2)))}
    held = any(trap.held for trap in traps.values())
    seconds = plan.scale.fault_seconds + (_LONGEST_HELD if held else _LONGER)
    queue = Queue(
        partitions=random.choice((1, 1, 2)),
        copy=random.random() < 1 / 2,
        holds=random.random() < 7 / 8,
        attempts=random.choice((2, 2, 3, 5)),
        created=random.uniform(0.0, seconds) if random.random() < 1 / 8 else 0.0,
        closed=random.uniform(0.0, seconds),
        closed_for=random.uniform(0.1, _LONGEST_CLOSED) if random.random() < 1 / 4 else 0.0,
    )
    return replace(
        plan,
        queue=queue,
        traps=traps,
        scale=replace(plan.scale, fault_seconds=seconds),
        temper={**plan.temper, Verdict.REJECT: random.choice(_REJECTED)},
        searching=plan.searching or held,
        aged=() if plan.idempotent or random.random() >= _EXPIRED else ("a0",),
    )


def _trap(random: Random) -> Trap:
    """Draws a fault at a step of one of the first letters, for about as long as a lease or longer."""
    step = random.choice((Step.SENT, Step.LETTER, *_TRAPPED))
    held = random.uniform(0.3, _LONGEST_HELD) if step is Step.SENT else 0.0
    fault = None
    if not held or random.random() < 3 / 4:
        fault = _fault(random, 0.0, _TRAPPED[step], (0.7, 1.7))
    return Trap(step, random.choice((1, 1, 2, 3)), fault, random.random() < 1 / 4, held)


def _large(random: Random) -> Plan:
    members = _members(random, 4, GROUPS, _WAYS)
    grow, partitions = random.uniform(0.0, LARGE.fault_seconds), random.randint(1, 2)
    rates, layout = random.choice(_TROUBLES), random.choice((TOGETHER, TOGETHER, *SPLIT))
    faults: list[Fault] = []
    at = random.expovariate(1 / _PAUSE)
    while at < LARGE.fault_seconds:
        faults.append(_fault(random, at, _KINDS, (0.0, 2.0)))
        at += random.expovariate(1 / _PAUSE)
    change = _change(random, LARGE) if random.random() < 1 / 3 else None
    return Plan(rates, _named(faults), members, ("p0", "p1"), partitions, grow, layout, change)


def _small(random: Random) -> Plan:
    theme = random.choice(_THEMES)
    wide = random.random() < theme.wide
    groups = GROUPS if wide else GROUPS[:1]
    scale = Scale(groups, random.uniform(1.0, 3.5), random.uniform(1.0, 3.0), random.random() < 1 / 5)
    members = _members(random, random.choice(theme.crowd), groups, theme.ways)
    times = sorted(
        random.uniform(0.0, scale.fault_seconds)
        for _ in range(random.randint(min(1, theme.most), theme.most))
    )
    if random.random() < theme.early:
        times[0] = 0.0
    faults = [_fault(random, at, theme.kinds, theme.leases) for at in times]
    change = _change(random, scale) if random.random() < theme.change else None
    plan = Plan(
        rates=random.choice(theme.rates),
        faults=_named(faults),
        members=members,
        producers=("p0",),
        partitions=2 if wide else random.choice((1, 1, 1, 1, 2)),
        grow=random.uniform(0.0, scale.fault_seconds) if random.random() < 1 / 8 else None,
        layout=random.choice(SPLIT) if random.random() < 1 / 8 else TOGETHER,
        change=change,
        scale=scale,
        temper=random.choice(theme.tempers),
        searching=random.random() < theme.searching,
        patience=random.choice(_PATIENCE),
        shards=2 if wide else random.choice((1, 2)),
    )
    if random.random() >= PIPELINED:
        return plan
    return replace(plan, idempotent=("i0",), partitions=2)


def _members(
    random: Random, count: int, groups: Sequence[str], ways: Sequence[Way]
) -> tuple[tuple[str, str, Way], ...]:
    return tuple((f"m{n}", random.choice(groups), random.choice(ways)) for n in range(count))


def _change(random: Random, scale: Scale) -> Change:
    """Draws an early change: a group is empty only seconds after its members left."""
    at = random.uniform(0.0, scale.fault_seconds / 2)
    return Change(at, random.choice(tuple(Work)), random.choice(scale.groups))


def _fault(random: Random, at: float, kinds: Sequence[Kind], leases: tuple[float, float]) -> Fault:
    """Draws a fault of any process; a number beyond the last process wraps around."""
    lasts, patience = LEASE * random.uniform(*leases), random.uniform(0.5, _MOST_STOP)
    return Fault(at, random.choice(kinds), random.randrange(6), lasts, patience)


def _named(faults: Sequence[Fault]) -> dict[str, Fault]:
    return {f"f{number}": fault for number, fault in enumerate(faults)}
