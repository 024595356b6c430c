"""A real Apache Kafka in separate processes (free ports, fresh folders), for comparison or below Sharebroker.

`jars` select its release: `SERVER`, `NEXT_SERVER`, which has dead letter queues, or one of `UPSTREAMS`. It
runs on KRaft, or with ZooKeeper if the release needs it.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.support.kafka_jars import SERVER, JarSet
from tests.support.kafka_tools import ToolFailed, as_properties, end_at_once, java, java_environment, run_tool
from tests.support.zookeeper import ZooKeeper
from tests.testkit.servers import free_port
from tests.testkit.waiting import until

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
CLUSTER_ID: Final = "c2hhcmVicm9rZXItdGVzdA"
CONTROLLER: Final = 3000
"""Node id of the controller if it is not a broker as well."""

PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
"""Kafka's security protocols, which name the listeners."""

SERVER_FLAGS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""JVM flags for brokers of tests, which start many; measurements use others."""

SINGLE_NODE: Final = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}
"""Properties that one broker requires, with fewer partitions of the internal topics, as in Kafka's own
tests.
"""


class Node:
    """One process of a cluster; it can be stopped and started again on its data and ports.

    `others` are the ports of further listeners by their security protocol.
    """

    def __init__(
        self,
        node_id: int,
        port: int,
        folder: Path,
        flags: Sequence[str],
        jars: JarSet = SERVER,
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.node_id = node_id
        self.port = port
        self.others = others
        self._folder = folder
        self._flags = flags
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Returns the id of the process while it runs."""
        return self._process.pid if self._process is not None else None

    def format(self, properties: Mapping[str, object], features: Mapping[str, int]) -> None:
        """Writes its properties file and formats its storage, which a broker with ZooKeeper does itself."""
        self._folder.mkdir(parents=True)
        self._config.write_text(as_properties({**properties, "log.dirs": self._folder / "logs"}))
        if self._jars.zookeeper:
            return
        levels = [word for name, level in features.items() for word in ("--feature", f"{name}={level}")]
        arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(self._config))
        run_tool("kafka.tools.StorageTool", *arguments, *levels, jars=self._jars).checked()

    def start(self) -> None:
        """Starts the process; `until_ready` waits."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                java("kafka.Kafka", str(self._config), flags=self._flags),
                env=java_environment(self._jars),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def until_ready(self) -> None:
        """Waits until it responds. Raises ToolFailed when it ends instead, or takes too long."""
        try:
            until(self._is_ready, timeout=START_SECONDS)
        except AssertionError:
            raise ToolFailed(f"Kafka node {self.node_id} does not respond:\n{self._last_words()}") from None

    def stop(self) -> None:
        """Sends SIGTERM, and waits for its end."""
        if self._process is not None:
            end_at_once(self._process, STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """Kills the process with SIGKILL, and waits for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _config(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "output.log"

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise ToolFailed(f"Kafka node {self.node_id} ended:\n{self._last_words()}")
        return _is_registered(self.port) if self._jars.zookeeper else responds(self.port)

    def _last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])


class KafkaCluster:
    """One node that is broker and controller, or several brokers and a separate controller.

    The listener of `bootstrap` is PLAINTEXT. Each broker has another for each security protocol in
    `listeners`; `properties` configure their authentication.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        properties: Mapping[str, object] | None = None,
        flags: Sequence[str] = SERVER_FLAGS,
        jars: JarSet = SERVER,
        features: Mapping[str, int] = MappingProxyType({}),
        listeners: Sequence[str] = (),
    ) -> None:
        self._zookeeper = ZooKeeper(folder / "zookeeper", flags, jars) if jars.zookeeper else None
        self._voter = (0 if brokers == 1 else CONTROLLER, free_port())
        self.brokers = {
            n: Node(
                n, free_port(), folder / f"broker-{n}", flags, jars, {name: free_port() for name in listeners}
            )
            for n in range(brokers)
        }
        self._others = []
        given = {**SINGLE_NODE, **(properties or {})}
        for node in self.brokers.values():
            node.format({**given, **self._broker_properties(node)}, features)
        if brokers > 1 and self._zookeeper is None:
            controller = Node(CONTROLLER, self._voter[1], folder / "controller", flags, jars)
            controller.format({**given, **self._controller_properties()}, features)
            self._others.append(controller)

    @property
    def bootstrap(self) -> str:
        """Returns the bootstrap addresses."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.brokers.values())

    def bootstrap_of(self, protocol: str) -> str:
        """Returns the bootstrap addresses of the listeners with a security protocol."""
        return ",".join(f"localhost:{node.others[protocol]}" for node in self.brokers.values())

    def start(self) -> None:
        """Starts all nodes and waits until the brokers respond."""
        if self._zookeeper is not None:
            self._zookeeper.start()
        for node in (*self._others, *self.brokers.values()):
            node.start()
        for node in self.brokers.values():
            node.until_ready()

    def stop(self) -> None:
        """Stops all nodes."""
        for node in (*self.brokers.values(), *self._others):
            node.stop()
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def _broker_properties(self, node: Node) -> dict[str, object]:
        listeners = [
            f"PLAINTEXT://127.0.0.1:{node.port}",
            *(f"{protocol}://localhost:{port}" for protocol, port in node.others.items()),
        ]
        advertised = {
            "advertised.listeners": ",".join(listeners),
            "inter.broker.listener.name": "PLAINTEXT",
        }
        if self._zookeeper is not None:
            return {
                **advertised,
                "broker.id": node.node_id,
                "listeners": ",".join(listeners),
                "zookeeper.connect": f"127.0.0.1:{self._zookeeper.port}",
            }
        alone = node.node_id == self._voter[0]
        if alone:
            listeners.append(f"CONTROLLER://127.0.0.1:{self._voter[1]}")
        return {
            **self._common(node.node_id),
            **advertised,
            "process.roles": "broker,controller" if alone else "broker",
            "listeners": ",".join(listeners),
        }

    def _controller_properties(self) -> dict[str, object]:
        return {
            **self._common(CONTROLLER),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{self._voter[1]}",
        }

    def _common(self, node_id: int) -> dict[str, object]:
        return {
            "node.id": node_id,
            "controller.quorum.voters": f"{self._voter[0]}@127.0.0.1:{self._voter[1]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in PROTOCOLS)]
            ),
        }


@contextlib.contextmanager
def running_kafka(
    folder: Path,
    brokers: int = 1,
    properties: Mapping[str, object] | None = None,
    jars: JarSet = SERVER,
    listeners: Sequence[str] = (),
) -> Iterator[KafkaCluster]:
    """Provides a running cluster; stops it at the end."""
    cluster = KafkaCluster(folder, brokers, properties, jars=jars, listeners=listeners)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def responds(port: int) -> bool:
    """Returns whether a process on this port of 127.0.0.1 responds to ApiVersions."""
    request = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
        connection.sendall(request)
        return connection.recv(8)[4:] == b"\0\0\0\1"
    return False


def _is_registered(port: int) -> bool:
    """Returns whether Metadata contains a broker, which one with ZooKeeper serves before it is in there."""
    request = bytes.fromhex("0000000e 0003 0000 00000001 ffff 00000000")
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
        connection.sendall(request)
        return int.from_bytes(connection.recv(12)[8:12]) > 0
    return False


def options_over(bootstrap: str, folder: Path) -> list[str]:
    """Returns the options of a broker over this Kafka cluster, whose new topics it notices within a second.

    The file of the cluster's properties is written to `folder`.
    """
    properties = folder / "upstream.properties"
    properties.write_text("metadata.max.age.ms=1000\n")
    return ["--log", f"kafka://{bootstrap}", "--upstream-config", str(properties)]
