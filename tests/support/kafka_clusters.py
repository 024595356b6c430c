"""Clusters for tests that run on both: Sharebroker and a real Kafka behind the same interface."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from tests.perf.processes import ROOT, environment
from tests.support.kafka_jars import JarSet
from tests.support.kafka_server import KafkaCluster, options_over
from tests.support.kafka_tools import end_at_once
from tests.testkit.brokers import lists_brokers
from tests.testkit.servers import running
from tests.testkit.waiting import until

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 30.0


class ClusterFailed(Exception):
    """A server did not start; the text has the end of its log."""


class Cluster(Protocol):
    """Brokers with their own data."""

    @property
    def addresses(self) -> dict[int, str]:
        """Returns the Kafka listener of each broker, by its node id; it stays the same after a restart."""

    @property
    def pids(self) -> list[int]:
        """Returns the ids of the running broker processes."""

    def start(self) -> None:
        """Starts all brokers, and waits until they respond."""

    def stop(self) -> None:
        """Stops all brokers."""

    def stop_broker(self, node_id: int) -> None:
        """Stops one broker like an operator, and waits until it has ended."""

    def start_broker(self, node_id: int) -> None:
        """Starts a stopped broker on its data."""


class SharebrokerCluster:
    """One `sharebroker serve` with its Valkey, or several on a shared Valkey.

    `features` are levels of the new cluster, `options` further options of each process.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int,
        properties: Mapping[str, str],
        features: Mapping[str, int] = MappingProxyType({}),
        options: Sequence[str] = (),
    ) -> None:
        self._stack = contextlib.ExitStack()
        levels = [word for name, level in features.items() for word in ("--feature", f"{name}={level}")]
        words = [*levels, *_settings(properties), *options]
        self._nodes = {n: Node(n, folder / f"broker-{n}", words) for n in range(brokers)}

    @property
    def addresses(self) -> dict[int, str]:
        """As `Cluster.addresses`."""
        return {node_id: node.address for node_id, node in self._nodes.items()}

    @property
    def pids(self) -> list[int]:
        """As `Cluster.pids`."""
        return [node.pid for node in self._nodes.values() if node.pid is not None]

    def start(self) -> None:
        """As `Cluster.start`."""
        redis = None
        if len(self._nodes) > 1:
            redis = self._stack.enter_context(running("valkey", "--appendonly", "yes")).url
        for node in self._nodes.values():
            node.start(redis)
        for node in self._nodes.values():
            node.until_ready()
        for node in self._nodes.values():
            until(partial(lists_brokers, node.grpc, len(self._nodes)), START_SECONDS)

    def stop(self) -> None:
        """As `Cluster.stop`."""
        for node in self._nodes.values():
            node.stop()
        self._stack.close()

    def stop_broker(self, node_id: int) -> None:
        """As `Cluster.stop_broker`."""
        self._nodes[node_id].stop()

    def start_broker(self, node_id: int) -> None:
        """As `Cluster.start_broker`."""
        self._nodes[node_id].start()
        self._nodes[node_id].until_ready()


class ProxyingCluster:
    """Sharebroker that passes requests to as many brokers of a Kafka without share groups."""

    def __init__(
        self,
        folder: Path,
        brokers: int,
        properties: Mapping[str, str],
        features: Mapping[str, int] = MappingProxyType({}),
        *,
        jars: JarSet,
    ) -> None:
        self._kafka = KafkaCluster(folder / "kafka", brokers, jars=jars)
        options = [*options_over(self._kafka.bootstrap, folder), "--proxy"]
        self._own = SharebrokerCluster(folder, brokers, properties, features, options)

    @property
    def addresses(self) -> dict[int, str]:
        """As `Cluster.addresses`."""
        return self._own.addresses

    @property
    def pids(self) -> list[int]:
        """As `Cluster.pids`."""
        return self._own.pids

    def start(self) -> None:
        """As `Cluster.start`."""
        self._kafka.start()
        self._own.start()

    def stop(self) -> None:
        """As `Cluster.stop`."""
        self._own.stop()
        self._kafka.stop()

    def stop_broker(self, node_id: int) -> None:
        """Stops one broker of Sharebroker."""
        self._own.stop_broker(node_id)

    def start_broker(self, node_id: int) -> None:
        """Starts one broker of Sharebroker."""
        self._own.start_broker(node_id)


class Node:
    """One process of Sharebroker with all roles."""

    def __init__(self, node_id: int, folder: Path, options: Sequence[str]) -> None:
        self.address = "127.0.0.1:0"
        self.grpc = ""
        self._folder = folder
        self._options = [*options, *_settings({"node.id": str(node_id)})]
        self._redis: str | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, redis: str | None = None) -> None:
        """Starts the process; `until_ready` waits. Later starts use the port and the Redis of the first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._ready.unlink(missing_ok=True)
        self._redis = redis or self._redis
        command = [sys.executable, "-m", "sharebroker_server.broker", "--data", str(self._folder / "data")]
        command += ["--grpc", "127.0.0.1:0", "--kafka", self.address, "--ready-file", str(self._ready)]
        command += self._options
        command += ["--redis", self._redis] if self._redis else []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int | None:
        """Returns the id of the process while it runs."""
        return self._process.pid if self._process is not None else None

    def until_ready(self) -> None:
        """Waits until it serves. Raises ClusterFailed when it ends instead, or takes too long."""
        try:
            until(self._has_ended_or_is_ready, START_SECONDS)
            facts = json.loads(self._ready.read_bytes())
            self.address, self.grpc = str(facts["kafka"]), str(facts["grpc"])
        except (AssertionError, OSError):
            words = self._log.read_text(errors="replace").splitlines()[-20:]
            raise ClusterFailed("\n".join(["Sharebroker did not start:", *words])) from None

    def stop(self) -> None:
        """Sends SIGTERM, and waits for its end."""
        if self._process is not None:
            end_at_once(self._process, STOP_SECONDS)
            self._process = None

    @property
    def _ready(self) -> Path:
        return self._folder / "ready.json"

    @property
    def _log(self) -> Path:
        return self._folder / "output.log"

    def _has_ended_or_is_ready(self) -> bool:
        return self._ready.exists() or (self._process is not None and self._process.poll() is not None)


def _settings(properties: Mapping[str, str]) -> list[str]:
    return [word for key, value in properties.items() for word in ("--set", f"{key}={value}")]


class RealCluster:
    """Apache Kafka 4.3.1; `features` are levels of the new cluster."""

    def __init__(
        self,
        folder: Path,
        brokers: int,
        properties: Mapping[str, str],
        features: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._cluster = KafkaCluster(folder, brokers, properties, features=features)

    @property
    def addresses(self) -> dict[int, str]:
        """As `Cluster.addresses`."""
        return {node_id: f"127.0.0.1:{node.port}" for node_id, node in self._cluster.brokers.items()}

    @property
    def pids(self) -> list[int]:
        """As `Cluster.pids`."""
        return [node.pid for node in self._cluster.brokers.values() if node.pid is not None]

    def start(self) -> None:
        """As `Cluster.start`."""
        self._cluster.start()

    def stop(self) -> None:
        """As `Cluster.stop`."""
        self._cluster.stop()

    def stop_broker(self, node_id: int) -> None:
        """As `Cluster.stop_broker`."""
        self._cluster.brokers[node_id].stop()

    def start_broker(self, node_id: int) -> None:
        """As `Cluster.start_broker`."""
        node = self._cluster.brokers[node_id]
        node.start()
        node.until_ready()
