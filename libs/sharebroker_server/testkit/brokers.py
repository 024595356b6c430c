"""Sharebroker itself for tests: a process with all roles, three such, or four with one role each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_server.testkit.servers import Server, running
from sharebroker_server.testkit.waiting import until

ROLES = ("share-coordinator", "group-coordinator", "share-partition-leader", "gateway")
START_SECONDS = 60.0


@dataclass
class Serve:
    """One `serve` process: its options without those about files and addresses, and what it said.

    What is in `prefix` stands before its command line.
    """

    folder: Path
    options: Sequence[str]
    name: str = "broker"
    listen: str = "127.0.0.1:0"
    prefix: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Its gRPC address."""
        return str(self.facts["grpc"])

    @property
    def kafka(self) -> str:
        """Where Kafka clients connect."""
        return str(self.facts["kafka"])

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self.folder / f"{self.name}.log").read_text()

    @property
    def ready_file(self) -> Path:
        """Where it tells that it serves."""
        return self.folder / f"{self.name}.json"

    def start(self) -> None:
        """Start it and wait until it serves; the second time on the address it had."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it."""
        self.ready_file.unlink(missing_ok=True)
        kafka = str(self.facts.get("kafka") or f"{self.listen.rpartition(':')[0]}:0")
        command = [
            *self.prefix,
            sys.executable,
            "-m",
            "sharebroker_server.broker",
            "--grpc",
            self.listen,
            "--kafka",
            kafka,
        ]
        command += ["--ready-file", str(self.ready_file), *self.options]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def wait(self) -> None:
        """Wait until it serves."""
        process = self.process
        assert process is not None
        until(lambda: self.ready_file.exists() or process.poll() is not None, START_SECONDS)
        assert process.poll() is None, f"serve ended with {process.returncode}:\n{self.log}"
        self.facts = json.loads(self.ready_file.read_text())
        # Others may know it by another address.
        self.listen = f"{self.listen.rpartition(':')[0]}:{self.facts['port']}"

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Stop it, and start it on the same data and addresses."""
        self.stop()
        self.start()

    def kill(self) -> int:
        """End it at once, as a crash would."""
        return self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@dataclass
class Cluster:
    """Processes that serve together, and the Redis they stand on; the last one is where clients go."""

    processes: list[Serve]
    redis_url: str
    redis: Server | None = None

    @property
    def address(self) -> str:
        """The gRPC address for clients."""
        return self.processes[-1].address

    @property
    def kafka(self) -> str:
        """Where Kafka clients connect."""
        return self.processes[-1].kafka

    def process(self, role: str) -> Serve:
        """The process with a role."""
        return next(serve for serve in self.processes if serve.name in (role, "all"))


@contextlib.contextmanager
def one_process(*options: str) -> Iterator[Cluster]:
    """All roles in one process with an embedded Valkey."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name:
        data = Path(name) / "data"
        serve = Serve(Path(name), ["--data", str(data), *options], "all")
        with _serving([serve]):
            yield Cluster([serve], f"unix://{data}/valkey/redis.sock")


@contextlib.contextmanager
def three_brokers(*options: str) -> Iterator[Cluster]:
    """Three processes with all roles each, brokers 1, 2 and 3 of one cluster, one Redis between them."""
    with (
        tempfile.TemporaryDirectory(prefix="sharebroker-") as name,
        running("valkey", "--appendonly", "yes", "--appendfsync", "always") as redis,
    ):
        serves = [
            Serve(Path(name), ["--redis", redis.url, "--set", f"node.id={number}", *options], f"all-{number}")
            for number in (1, 2, 3)
        ]
        with _serving(serves):
            # Who is not known yet gets no partitions; they would move under a test that began too early.
            for serve in serves:
                until(partial(knows, serve.address, len(serves)), START_SECONDS)
            yield Cluster(serves, redis.url, redis)


@contextlib.contextmanager
def four_processes(*options: str) -> Iterator[Cluster]:
    """Each role in a process of its own, one Redis between them."""
    with (
        tempfile.TemporaryDirectory(prefix="sharebroker-") as name,
        running("valkey", "--appendonly", "yes", "--appendfsync", "always") as redis,
    ):
        serves = [
            Serve(Path(name), ["--redis", redis.url, "--roles", role, *options], role) for role in ROLES
        ]
        with _serving(serves):
            yield Cluster(serves, redis.url, redis)


@contextlib.contextmanager
def _serving(serves: Sequence[Serve]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for serve in serves:
            serve.launch()
            stack.callback(serve.stop)
        for serve in serves:
            serve.wait()
        yield


def knows(address: str, brokers: int) -> bool:
    """Whether the process at an address knows so many."""
    with grpc.insecure_channel(address) as channel:
        metadata = AdminServiceStub(channel).Metadata(pb.MetadataRequest(), timeout=START_SECONDS)
    return len(metadata.nodes) == brokers
