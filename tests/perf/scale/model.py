"""The rate that a cluster sustains, and the size that a rate needs: pure rules on measured demands.

A station is a kind of process: a client program, a role, a Redis shard. The service demand of a station is
its CPU time per record, summed over all its visits. Two operational laws bound the rate of records X
(Denning and Buzen, "The Operational Analysis of Queueing Network Models", 1978):

* A process runs its event loop in one thread, so n processes of a station give X <= n / demand.
* All processes on a machine share its cores, so X <= cores / (sum of their demands).

A pipelined load keeps all processes busy and approaches the lower of the two. A load that waits for each
result, so that one process works at a time, has the rate 1 / (sum of all demands). `figures.py` compares
both with measured rates.

A size is found the other way round: the utilisation law (utilisation = rate x demand) gives the processes
that stay below a chosen utilisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CLIENT: Final = "client"
REDIS: Final = "redis"
BROKER: Final = "broker"
"""A process with all roles."""

GATEWAY, LEADER, COORDINATOR = "gateway", "share-partition-leader", "share-coordinator"
GROUPS: Final = "group-coordinator"
ROLES: Final = (GATEWAY, LEADER, COORDINATOR, GROUPS)
"""The stations of brokers that have one role each."""

MICRO: Final = 1e-6

Demand = Mapping[str, float]
"""Microseconds of CPU per record, by station."""


def together(*demands: Demand) -> dict[str, float]:
    """Returns the sum of demands, as of a record that is published and then finished by several groups."""
    return {
        station: sum(demand.get(station, 0.0) for demand in demands)
        for station in dict.fromkeys(name for demand in demands for name in demand)
    }


def forwarded(local: Demand, split: Demand, brokers: int) -> dict[str, float]:
    """Returns the demand of several brokers with all roles each.

    `local` is that of a single broker, `split` that of brokers with one role each. A record's gateway leads
    its partition in one of `brokers` cases. In the others the record passes through as many processes as with
    one role each.
    """
    far = 1 - 1 / brokers
    demand = {station: cpu for station, cpu in split.items() if station not in ROLES}
    demand[BROKER] = sum(split.get(role, 0.0) for role in ROLES)
    return {station: (1 - far) * local.get(station, 0.0) + far * cpu for station, cpu in demand.items()}


@dataclass(frozen=True, slots=True)
class Bound:
    """The highest rate (records per second), and the station that sets it; "cores" for the machine."""

    rate: float
    station: str


def highest_rate(demand: Demand, processes: Mapping[str, int], cores: float) -> Bound:
    """Returns the bound of a machine on which all processes run; a station without a number has one."""
    bounds = [
        Bound(processes.get(station, 1) / (cpu * MICRO), station)
        for station, cpu in demand.items()
        if cpu > 0
    ]
    total = sum(demand.values())
    return min([*bounds, Bound(cores / (total * MICRO), "cores")], key=lambda bound: bound.rate)


def rate_one_at_a_time(demand: Demand) -> float:
    """Returns the rate of a load that waits for each result, on any number of cores."""
    return 1 / (sum(demand.values()) * MICRO)


@dataclass(frozen=True, slots=True)
class Load:
    """What a cluster is to serve. `kept_seconds` is the retention of records.

    `memory` is Redis' memory per record in bytes, and `groups` the number of share groups that each finish
    every record. `share_partitions` counts all of them, idle ones too.
    """

    rate: float
    memory: float
    kept_seconds: float
    groups: int = 1
    share_partitions: int = 0


@dataclass(frozen=True, slots=True)
class Idle:
    """What a share-partition with its part of a consumer costs a broker while nothing happens."""

    cpu: float
    """Microseconds of CPU per second."""

    memory: float
    """Bytes of the broker."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How full a process may be. `shard_memory` is the memory of a Redis shard in bytes."""

    utilisation: float = 0.6
    shard_memory: float = 64e9

    def __post_init__(self) -> None:
        if not 0 < self.utilisation <= 1:
            raise ValueError(f"a utilisation of {self.utilisation} is not in (0, 1]")


@dataclass(frozen=True, slots=True)
class Size:
    """Processes by station, and what they use: cores at work, bytes of all Redis shards and brokers.

    `partitions` is the least number of partitions: one process leads a partition, and one shard stores it.
    """

    processes: Mapping[str, int]
    cores: float
    redis_memory: float
    broker_memory: float
    partitions: int
    bounded_by: str
    """What the number of Redis shards follows from: "CPU" or "memory"."""


def size_for(load: Load, demand: Demand, idle: Idle, limits: Limits) -> Size:
    """Returns the smallest size that serves a load; clients and their demand are not part of it."""
    used = {station: load.rate * cpu * MICRO for station, cpu in demand.items() if station != CLIENT}
    leading = BROKER if BROKER in used else LEADER
    used[leading] = used.get(leading, 0.0) + load.share_partitions * idle.cpu * MICRO
    processes = {station: max(1, _ceil(cores / limits.utilisation)) for station, cores in used.items()}
    memory = load.rate * load.kept_seconds * load.memory
    by_memory = max(1, _ceil(memory / limits.shard_memory))
    bounded_by = "memory" if by_memory > processes.get(REDIS, 1) else "CPU"
    processes[REDIS] = max(processes.get(REDIS, 1), by_memory)
    partitions = max(processes[leading], processes[REDIS])
    idle_memory = load.share_partitions * idle.memory
    return Size(processes, sum(used.values()), memory, idle_memory, partitions, bounded_by)


def brokers_for(load: Load, local: Demand, split: Demand, idle: Idle, limits: Limits) -> Size:
    """Returns the smallest size of brokers with all roles; more of them forward more records."""
    brokers = 1
    while True:
        size = size_for(load, forwarded(local, split, brokers), idle, limits)
        if size.processes[BROKER] <= brokers:
            return size
        brokers = size.processes[BROKER]


def _ceil(value: float) -> int:
    """Rounds up; a rounding error of the division does not add a process."""
    return math.ceil(value - 1e-9)
