"""Two processes of each role over one Valkey, each behind proxies that can disconnect it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.redis_link.keys import Keys
from tests.support.kafka_server import KafkaCluster, options_over, running_kafka
from tests.testkit.brokers import ROLES, Program, Serve
from tests.testkit.namespaces import Machine, machines
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import Server, free_port, running

LOCK: Final = 5.0
"""Duration of an acquisition lock, in seconds."""

ATTEMPTS: Final = 10
"""The delivery limit."""

LEASE: Final = BrokerConfig().broker_session_timeout_ms / 1000
"""Duration of a lease without renewal, in seconds."""

SETTINGS: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    f"group.share.record.lock.duration.ms={round(LOCK * 1000)}",
    f"group.share.delivery.count.limit={ATTEMPTS}",
)


@dataclass(frozen=True)
class Node:
    """One process: peers connect to it through `listener`, and it connects to Redis through `redis`.

    It may have a network of its own: its `machine`.
    """

    role: str
    serve: Serve
    listener: FaultProxy
    redis: FaultProxy
    machine: Machine | None = None

    @property
    def name(self) -> str:
        """Returns its name in reports."""
        return self.serve.name

    @property
    def address(self) -> str:
        """Returns the address for clients and other processes."""
        return f"{self.listener.host}:{self.listener.port}"

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; a process that has ended ignores it."""
        process = self.serve.process
        if process is not None and process.poll() is None:
            process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL: its port refuses connections from the moment at which existing ones break."""
        await self.listener.refuse()
        await asyncio.to_thread(self.serve.kill)

    async def stop(self) -> None:
        """SIGTERM, then waits until it has ended."""
        try:
            code = await asyncio.to_thread(self.serve.stop)
        except subprocess.TimeoutExpired:
            code = -1
        await self.listener.refuse()
        if code != 0:
            raise AssertionError(f"{self.name} ended with {code}:\n{self.serve.log[-4000:]}")

    async def start(self) -> None:
        """Starts it again at the same address."""
        await self.listener.accept()
        await asyncio.to_thread(self.serve.start)


@dataclass(frozen=True)
class Deployment:
    """The running processes; clients have the addresses of all gateways."""

    redis: Server
    nodes: Sequence[Node]
    kafka_cluster: KafkaCluster | None = None
    """A real Kafka that has the records."""

    keys: Keys = field(default_factory=Keys)

    @property
    def redis_url(self) -> str:
        """Returns the Redis that holds the logs."""
        return self.redis.url

    @property
    def gateways(self) -> list[Node]:
        """Returns the gateways, which clients connect to."""
        return self.of("gateway")

    def of(self, role: str) -> list[Node]:
        """Returns the processes of a role."""
        return [node for node in self.nodes if node.role == role]

    def address(self, first: int = 0) -> str:
        """Returns the gRPC addresses of all gateways in one string, starting with the given one."""
        turned = [*self.gateways[first:], *self.gateways[:first]]
        return "ipv4:" + ",".join(node.address for node in turned)

    @property
    def kafka(self) -> str:
        """Returns the bootstrap address of Kafka clients."""
        return ",".join(node.serve.kafka for node in self.gateways)

    @property
    def upstream(self) -> str:
        """Returns the bootstrap address of the Kafka cluster that has the records, or ""."""
        return self.kafka_cluster.bootstrap if self.kafka_cluster is not None else ""

    @property
    def whole(self) -> bool:
        """Returns whether every process runs."""
        return all(
            node.serve.process is not None and node.serve.process.poll() is None for node in self.nodes
        )


@contextlib.asynccontextmanager
async def deployed(
    *settings: str, apart: bool = False, program: Program | None = None, upstream: bool = False
) -> AsyncIterator[Deployment]:
    """Starts everything, `apart` with separate networks; stops all of it at the end, whatever its state.

    The processes run `program` at first if it is given. With `upstream` a real Kafka has the records; it has
    no network of its own.
    """
    assert not (apart and upstream)
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharebroker-chaos-")))
        redis = stack.enter_context(running("valkey", "--appendonly", "yes", "--appendfsync", "always"))
        kafka = stack.enter_context(running_kafka(folder / "kafka")) if upstream else None
        options = options_over(kafka.bootstrap, folder) if kafka is not None else []
        names = [(role, number) for role in ROLES for number in (1, 2)]
        here, there = (
            stack.enter_context(machines(len(names))) if apart else ("127.0.0.1", [None] * len(names))
        )
        nodes = [
            await _node(stack, folder, Place(redis.port, here, machine), name, settings, options)
            for name, machine in zip(names, there, strict=True)
        ]
        for node in nodes:
            node.serve.program = program or node.serve.program
            node.serve.launch()
            stack.callback(_end, node)
        await asyncio.gather(*(asyncio.to_thread(node.serve.wait) for node in nodes))
        yield Deployment(redis, nodes, kafka)


@dataclass(frozen=True)
class Place:
    """The host on which a process runs, and the host of its proxies' listeners."""

    redis_port: int
    here: str
    machine: Machine | None


async def _node(
    stack: contextlib.AsyncExitStack,
    folder: Path,
    place: Place,
    name: tuple[str, int],
    settings: Sequence[str],
    others: Sequence[str],
) -> Node:
    role, number = name
    port, machine = free_port(), place.machine
    where = machine.address if machine is not None else place.here
    listener = await stack.enter_async_context(FaultProxy(port, host=place.here, upstream_host=where))
    redis = await stack.enter_async_context(FaultProxy(place.redis_port, host=place.here))
    options = ["--redis", redis.url, "--roles", role, "--advertise", f"{place.here}:{listener.port}"]
    options += [*others, *(word for pair in (*SETTINGS, *settings) for word in ("--set", pair))]
    prefix = machine.prefix if machine is not None else ()
    return Node(
        role, Serve(folder, options, f"{role}-{number}", f"{where}:{port}", prefix), listener, redis, machine
    )


def _end(node: Node) -> None:
    """Kills a process at the end of a run and deletes its data."""
    node.signal(signal.SIGCONT)
    with contextlib.suppress(AssertionError):
        node.serve.kill()
