"""Sharebroker clusters for tests: one broker with all roles, three such, or four with one role each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from tests.testkit.servers import Server, running
from tests.testkit.waiting import until

ROLES = ("share-coordinator", "group-coordinator", "share-partition-leader", "gateway")
START_SECONDS = 60.0

Program = tuple[Sequence[str], Mapping[str, str]]
"""A server's command without options, and additional environment variables: those of another checkout."""


@dataclass
class Serve:
    """One `serve` process: its options without files and addresses, and its facts once it is ready.

    `prefix` precedes its command line. `program` is the server's command with its environment variables.
    """

    folder: Path
    options: Sequence[str]
    name: str = "broker"
    listen: str = "127.0.0.1:0"
    prefix: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    facts: dict[str, object] = field(default_factory=dict)
    program: Program = ((sys.executable, "-m", "sharebroker_server.broker"), {})

    @property
    def address(self) -> str:
        """Its gRPC address."""
        return str(self.facts["grpc"])

    @property
    def kafka(self) -> str:
        """Its address for Kafka clients; with several processes, those of all, separated by commas."""
        return str(self.facts["kafka"])

    @property
    def log(self) -> str:
        """Its log output."""
        return (self.folder / f"{self.name}.log").read_text()

    @property
    def ready_file(self) -> Path:
        """The file that it writes once it is ready."""
        return self.folder / f"{self.name}.json"

    def start(self) -> None:
        """Starts it and waits until it is ready; a restart uses the previous address."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Starts it."""
        self.ready_file.unlink(missing_ok=True)
        kafka = str(self.facts.get("kafka") or f"{self.listen.rpartition(':')[0]}:0").partition(",")[0]
        program, variables = self.program
        command = [*self.prefix, *program, "--grpc", self.listen, "--kafka", kafka]
        command += ["--ready-file", str(self.ready_file), *self.options]
        environment = {**os.environ, **variables, "PYTHONUNBUFFERED": "1"}
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def wait(self) -> None:
        """Waits until it is ready."""
        process = self.process
        assert process is not None
        until(lambda: self.ready_file.exists() or process.poll() is not None, START_SECONDS)
        assert process.poll() is None, f"serve ended with {process.returncode}:\n{self.log}"
        self.facts = json.loads(self.ready_file.read_text())
        # Other brokers may store its address, so a restart must use the same one.
        self.listen = f"{self.listen.rpartition(':')[0]}:{self.facts['port']}"

    def stop(self) -> int:
        """Stops it with SIGTERM; returns its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Stops it, and starts it with the same data and addresses."""
        self.stop()
        self.start()

    def kill(self) -> int:
        """Kills it, like a crash."""
        return self._end(signal.SIGKILL)

    def _end(self, signal_number: signal.Signals) -> int:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal_number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@dataclass
class Cluster:
    """The brokers of a cluster and their Redis; clients connect to the last broker."""

    processes: list[Serve]
    redis_url: str
    redis: Server | None = None

    @property
    def address(self) -> str:
        """The gRPC address for clients."""
        return self.processes[-1].address

    @property
    def kafka(self) -> str:
        """The address for Kafka clients."""
        return self.processes[-1].kafka

    @property
    def gateways(self) -> list[Serve]:
        """The brokers with the role gateway."""
        return [serve for serve in self.processes if serve.name.startswith(("all", "gateway"))]

    def process(self, role: str) -> Serve:
        """Returns the broker with a role."""
        return next(serve for serve in self.processes if serve.name in (role, "all"))


@contextlib.contextmanager
def one_process(*options: str) -> Iterator[Cluster]:
    """Runs all roles in one broker with an embedded Valkey."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name:
        data = Path(name) / "data"
        serve = Serve(Path(name), ["--data", str(data), *options], "all")
        with serving([serve]):
            yield Cluster([serve], f"unix://{data}/valkey/redis.sock")


@contextlib.contextmanager
def equal_brokers(
    number: int, *options: str, fsync: str = "always", settled: bool = True
) -> Iterator[Cluster]:
    """Runs brokers of one cluster with all roles each, with ids from 1 on and a common Redis.

    With `settled` it waits until they list each other, which needs calls without TLS and users.
    """
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name, _common_redis(fsync) as redis:
        serves = [
            Serve(
                Path(name), ["--redis", redis.url, "--set", f"node.id={node_id}", *options], f"all-{node_id}"
            )
            for node_id in range(1, number + 1)
        ]
        with serving(serves):
            # A broker gets no partitions until the others list it; later they would move during a test.
            for serve in serves if settled else ():
                until(partial(lists_brokers, serve.address, number), START_SECONDS)
            yield Cluster(serves, redis.url, redis)


three_brokers = partial(equal_brokers, 3)


@contextlib.contextmanager
def four_processes(*options: str, fsync: str = "always") -> Iterator[Cluster]:
    """Runs each role in its own broker, with a common Redis."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name, _common_redis(fsync) as redis:
        serves = [
            Serve(Path(name), ["--redis", redis.url, "--roles", role, *options], role) for role in ROLES
        ]
        with serving(serves):
            yield Cluster(serves, redis.url, redis)


def _common_redis(fsync: str) -> contextlib.AbstractContextManager[Server]:
    return running("valkey", "--appendonly", "yes", "--appendfsync", fsync)


@contextlib.contextmanager
def serving(serves: Sequence[Serve]) -> Iterator[None]:
    """Starts brokers at the same time, and stops them at the end."""
    with contextlib.ExitStack() as stack:
        for serve in serves:
            serve.launch()
            stack.callback(serve.stop)
        for serve in serves:
            serve.wait()
        yield


def lists_brokers(address: str, brokers: int) -> bool:
    """Returns whether the broker at an address lists this number of brokers."""
    with grpc.insecure_channel(address) as channel:
        metadata = AdminServiceStub(channel).Metadata(pb.MetadataRequest(), timeout=START_SECONDS)
    return len(metadata.nodes) == brokers
