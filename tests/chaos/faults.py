"""Faults of processes and connections, and their order, drawn from a seed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.chaos.deployment import Deployment, Node
from tests.support.kafka_server import KafkaCluster
from tests.testkit.brokers import ROLES
from tests.testkit.proxy import FaultProxy

KILL: Final = "kill"
FREEZE: Final = "freeze"
STOP: Final = "stop"
CUT_REDIS: Final = "cut from Redis"
CUT_OTHERS: Final = "cut from others"
UNPLUG: Final = "unplug"
RESTART_REDIS: Final = "restart Redis"
RESTART_KAFKA: Final = "restart Kafka"
"""SIGKILL of the broker of a cluster that has the records; then it starts again."""
KINDS: Final = (KILL, FREEZE, STOP, CUT_REDIS, CUT_OTHERS)

_BEYOND: Final = 2.0
"""Seconds beyond the duration of a lease for which a process is frozen or disconnected from Redis."""

_CUT: Final = 4.0
"""Seconds for which a process is disconnected from others: it keeps its leases, so its work waits that
long.
"""


@dataclass(frozen=True)
class Fault:
    """A fault of one process, of Redis, or of the Kafka cluster that has the records."""

    kind: str
    role: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.role}-{self.number + 1}" if self.role else self.kind

    @property
    def stalls(self) -> bool:
        """Returns whether messages in flight may arrive later than usual."""
        return self.kind not in (KILL, STOP)

    def lasts(self, lease: float) -> float:
        """Returns the seconds until it may be healed."""
        if self.kind == CUT_OTHERS:
            return _CUT
        return lease + _BEYOND if self.kind in (FREEZE, CUT_REDIS, UNPLUG) else 0.0

    @property
    def outlasts_work(self) -> bool:
        """Returns whether work can continue only after it is healed."""
        return self.kind == CUT_OTHERS

    async def strike(self, on: Deployment) -> None:
        """Injects the fault."""
        if self.kind == RESTART_REDIS:
            await asyncio.to_thread(on.redis.kill)
            await asyncio.to_thread(on.redis.restart)
            return
        if self.kind == RESTART_KAFKA:
            await _restart(on.kafka_cluster)
            return
        node = self._node(on)
        match self.kind:
            case "kill":
                await node.kill()
            case "freeze":
                node.signal(signal.SIGSTOP)
            case "stop":
                await node.stop()
            case "cut from Redis":
                node.redis.black_hole()
            case "cut from others":
                node.listener.black_hole()
            case "unplug" if node.machine is not None:
                await asyncio.to_thread(node.machine.unplug)

    async def heal(self, on: Deployment) -> None:
        """Heals the fault."""
        if not self.role:
            return
        node = self._node(on)
        match self.kind:
            case "kill" | "stop":
                await node.start()
            case "freeze":
                node.signal(signal.SIGCONT)
            case "cut from Redis":
                await _mend(node.redis)
            case "cut from others":
                await _mend(node.listener)
            case "unplug" if node.machine is not None:
                await asyncio.to_thread(node.machine.plug)

    def _node(self, on: Deployment) -> Node:
        return on.of(self.role)[self.number]


async def _restart(kafka: KafkaCluster | None) -> None:
    assert kafka is not None
    for node in kafka.brokers.values():
        await asyncio.to_thread(node.kill)
        node.start()
        await asyncio.to_thread(node.until_ready)


async def _mend(proxy: FaultProxy) -> None:
    """A black hole dropped bytes, so connections from before are unusable."""
    proxy.heal()
    await proxy.cut()


def schedule(random: Random, kinds: Sequence[str] = KINDS, *, upstream: bool = False) -> Iterator[Fault]:
    """Yields faults without end: each kind hits each role once before any repeats.

    With `upstream` a Kafka cluster has the records; its broker is restarted as well.
    """
    while True:
        turn = [Fault(kind, role, random.randrange(2)) for kind in kinds for role in ROLES]
        turn += [Fault(RESTART_REDIS), *([Fault(RESTART_KAFKA)] if upstream else [])]
        random.shuffle(turn)
        yield from turn


def short_schedule() -> list[Fault]:
    """Returns one fault of each main kind, each on another role."""
    return [
        Fault(KILL, "share-partition-leader", 0),
        Fault(STOP, "group-coordinator", 1),
        Fault(RESTART_REDIS),
        Fault(FREEZE, "share-coordinator", 1),
    ]


def short_schedule_over_kafka() -> list[Fault]:
    """Returns the faults that concern what reads records of a Kafka cluster."""
    return [Fault(RESTART_KAFKA), Fault(KILL, "share-partition-leader", 0), Fault(RESTART_REDIS)]


def only(faults: Iterable[Fault], text: str) -> Iterator[Fault]:
    """Returns the faults whose name contains a text."""
    return (fault for fault in faults if text in str(fault))
