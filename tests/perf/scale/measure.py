"""Measures service demands, and the rates that the model predicts from them, on clusters of several sizes.

Each cluster has its own Valkey, which it reaches over TCP as in production. Client programs are those of
`make bench`; each has its own topic and group, and a cluster's gateways in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from tests.perf import many
from tests.perf.clients import Work
from tests.perf.processes import end, run_client
from tests.perf.procfs import usage
from tests.perf.scale.model import BROKER, CLIENT, REDIS, Idle
from tests.testkit.brokers import Serve, equal_brokers, four_processes

CLIENT_SECONDS: Final = 240.0
PARTITIONS: Final = 8
"""Partitions of each program's topic, so that each broker leads some."""

PROGRAMS: Final[Mapping[str, str]] = {
    "publish": "publish in batches",
    "range": "consume, a poll as a whole",
    "each": "consume, each record by its own call",
    "waiting": "consume, 32 workers that each wait for their result",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster of `brokers` with all roles, or of one process per role (0), and its client programs."""

    brokers: int
    clients: int

    @property
    def label(self) -> str:
        """How tables name it."""
        servers = f"{self.brokers} with all roles" if self.brokers else "one process per role"
        return f"{servers}, {self.clients} client{'s' * (self.clients > 1)}"

    @property
    def processes(self) -> dict[str, int]:
        """Number of processes by station, where there may be more than one."""
        return {BROKER: self.brokers, CLIENT: self.clients} if self.brokers else {CLIENT: self.clients}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Records per second of all programs together, and the demands of all stations in µs per record."""

    rate: float
    demand: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MeasuredCluster:
    """A running cluster: the addresses of its gateways, and the ids of its processes by station."""

    addresses: Sequence[str]
    pids: Mapping[str, Sequence[int]]

    def cpu(self) -> dict[str, float]:
        """CPU seconds used so far, by station."""
        return {station: usage(pids).cpu for station, pids in self.pids.items()}

    def run(self, program: str, work: Work, clients: int) -> Outcome:
        """Runs a program in several processes at once, each with `work` of its own. Raises BenchFailed."""
        works = [
            asdict(
                replace(
                    work,
                    address=self.addresses[number % len(self.addresses)],
                    topic=f"scale-{number}",
                    group=f"{program}-{number}",
                )
            )
            for number in range(clients)
        ]
        before = self.cpu()
        with ThreadPoolExecutor(clients) as threads:
            figures = list(threads.map(lambda one: run_client(program, one, CLIENT_SECONDS), works))
        used = {station: cpu - before[station] for station, cpu in self.cpu().items()}
        records = clients * work.records
        demand = {station: cpu / records * 1e6 for station, cpu in used.items()}
        demand[CLIENT] = sum(one[f"{program}.client_cpu"] for one in figures) / clients
        return Outcome(sum(one[f"{program}.rate"] for one in figures), demand)


@contextmanager
def started(layout: Layout) -> Iterator[MeasuredCluster]:
    """Starts a cluster, and stops it at the end."""
    start = partial(equal_brokers, layout.brokers) if layout.brokers else four_processes
    with start(fsync="everysec") as cluster:
        assert cluster.redis is not None
        pids: dict[str, list[int]] = {REDIS: [cluster.redis.process.pid]}
        for serve in cluster.processes:
            assert serve.process is not None
            pids.setdefault(BROKER if layout.brokers else serve.name, []).append(serve.process.pid)
        yield MeasuredCluster([serve.address for serve in cluster.gateways], pids)


def measured(layout: Layout, records: Mapping[str, int]) -> dict[str, Outcome]:
    """Returns the outcome of each program; `records` are those of one client."""
    with started(layout) as cluster:
        return {
            program: cluster.run(
                program, Work("", "", records=records[program], partitions=PARTITIONS), layout.clients
            )
            for program in PROGRAMS
        }


@dataclass(frozen=True, slots=True)
class Rest:
    """An idle server: share-partitions, its cores at work, and its resident bytes."""

    share_partitions: int
    cores: float
    memory: float


def idle(groups: int, seconds: float) -> Rest:
    """Measures a server while groups of 50 share-partitions and 5 consumers each are idle."""
    options = argparse.Namespace(
        groups=groups,
        partitions=50,
        consumers=5 * groups,
        joining=groups / 7,
        settle=seconds,
        idle=seconds,
        patience=many.PATIENCE,
    )
    with tempfile.TemporaryDirectory(prefix="sharebroker-scale-") as name:
        serve = Serve(Path(name), ["--data", str(Path(name) / "data")])
        serve.start()
        assert serve.process is not None
        try:
            figures = asyncio.run(many.measure(serve, options))
            memory = usage([serve.process.pid]).rss
        finally:
            end(serve.process, many.STOP_SECONDS)
    return Rest(groups * options.partitions, figures.idle_cpu, memory)


def per_share_partition(small: Rest, large: Rest) -> Idle:
    """Returns the slope between two idle servers, so that the fixed cost of a server does not count."""
    more = large.share_partitions - small.share_partitions
    return Idle((large.cores - small.cores) / more * 1e6, (large.memory - small.memory) / more)
