"""The network policies allow exactly the connections that real processes have."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer

from tests.deploy.test_manifests import ARROWS
from tests.testkit.brokers import Cluster, Serve, four_processes
from tests.testkit.waiting import until

SECONDS = 60.0
_ESTABLISHED = "01"


def connections(serve: Serve) -> Iterator[int]:
    """Returns the remote ports of a process's TCP connections."""
    assert serve.process is not None
    folder = Path("/proc", str(serve.process.pid), "fd")
    own = set()
    for link in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            own.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, _, remote, state, *_, inode = line.split()[:10]
            if state == _ESTABLISHED and inode in own:
                yield int(remote.rpartition(":")[2], 16)


def arrows(cluster: Cluster) -> set[tuple[str, str]]:
    """Returns which role is connected to whose gRPC port."""
    ports = {int(serve.address.rpartition(":")[2]): serve.name for serve in cluster.processes}
    return {
        (serve.name, ports[port])
        for serve in cluster.processes
        for port in connections(serve)
        if port in ports
    }


def commands(address: str, script: str) -> None:
    """Runs commands of ours."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SHAREBROKER_SERVER": address}
    done = subprocess.run(
        ["sh", "-ec", script], env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr


def transaction(kafka: str, topic: str) -> None:
    """Publishes a record in a transaction."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"once")
    producer.commit_transaction(SECONDS)


def test_connections_match_the_network_policies() -> None:
    with four_processes() as cluster:
        commands(
            cluster.address,
            """
            sharebroker topics create records --partitions 2
            seq 1 20 | sharebroker produce records
            sharebroker consume records --group readers --from-beginning --max 20 --timeout 60
            sharebroker verify readers records
            """,
        )
        transaction(cluster.kafka, "records")
        until(lambda: arrows(cluster) >= ARROWS, SECONDS)
        assert arrows(cluster) == ARROWS
