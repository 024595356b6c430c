"""Sharebroker itself for tests: one process with all roles, or four with one role each, stopped by pid."""

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
from pathlib import Path

from libs.testkit.servers import running
from libs.testkit.waiting import until

ROLES = ("share-coordinator", "group-coordinator", "share-partition-leader", "gateway")
START_SECONDS = 60.0


@dataclass
class Serve:
    """One `serve` process: its options without those about files, and what it said."""

    folder: Path
    options: Sequence[str]
    name: str = "broker"
    process: subprocess.Popen[bytes] | None = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Its gRPC address."""
        return str(self.facts["grpc"])

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self.folder / f"{self.name}.log").read_text()

    def start(self) -> None:
        """Start it and wait until it serves."""
        ready = self.folder / f"{self.name}.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "services.broker", "--ready-file", str(ready), *self.options]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        process = self.process
        until(lambda: ready.exists() or process.poll() is not None, START_SECONDS)
        assert process.poll() is None, f"serve ended with {process.returncode}:\n{self.log}"
        self.facts = json.loads(ready.read_text())

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        return self._end(signal.SIGTERM)

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
    """Processes that serve together; the first one that is a gateway is where clients go."""

    processes: list[Serve]

    @property
    def address(self) -> str:
        """The gRPC address for clients."""
        return self.processes[-1].address

    def process(self, role: str) -> Serve:
        """The process with a role."""
        return next(serve for serve in self.processes if serve.name in (role, "all"))


@contextlib.contextmanager
def one_process(*options: str) -> Iterator[Cluster]:
    """All roles in one process with an embedded Valkey."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name:
        folder = Path(name)
        serve = Serve(folder, ["--data", str(folder / "data"), "--grpc", "127.0.0.1:0", *options], "all")
        with _serving([serve]):
            yield Cluster([serve])


@contextlib.contextmanager
def four_processes(*options: str) -> Iterator[Cluster]:
    """Each role in a process of its own, one Redis between them."""
    with (
        tempfile.TemporaryDirectory(prefix="sharebroker-") as name,
        running("valkey", "--appendonly", "yes") as redis,
    ):
        serves = [
            Serve(
                Path(name), ["--redis", redis.url, "--roles", role, "--grpc", "127.0.0.1:0", *options], role
            )
            for role in ROLES
        ]
        with _serving(serves):
            yield Cluster(serves)


@contextlib.contextmanager
def _serving(serves: Sequence[Serve]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for serve in serves:
            serve.start()
            stack.callback(serve.stop)
        yield
