"""Starts the servers of a run, each in a fresh folder: a raw Valkey, and `serve` in its own process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sharebroker_server.redis_link.embedded import EmbeddedRedis
from tests.perf.checkout import HERE, Checkout
from tests.perf.processes import BenchFailed, end
from tests.perf.procfs import Usage, usage

Fsync = Literal["always", "everysec"]

START_SECONDS: Final = 60.0
FSYNC_PROBES: Final = 200
FSYNC_BYTES: Final = 4096


@contextlib.asynccontextmanager
async def raw_valkey(folder: Path, fsync: Fsync) -> AsyncIterator[str]:
    """Starts a Valkey exactly as the product starts its own; yields its URL."""
    server = EmbeddedRedis(folder / "raw", fsync=fsync)
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


@dataclass(frozen=True, slots=True)
class Serving:
    """A running server: its gRPC address, its Kafka listener ("" without one) and its process."""

    address: str
    kafka: str
    pid: int

    def usage(self) -> Usage:
        """CPU and memory of the server and its Valkey."""
        return usage([self.pid])

    def cpu_seconds(self) -> float:
        """CPU that the server and its Valkey have used."""
        return self.usage().cpu


@contextlib.contextmanager
def serving(
    folder: Path,
    fsync: Fsync,
    profile: Path | None = None,
    *,
    checkout: Checkout = HERE,
    runner: Sequence[str] | None = None,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[Serving]:
    """Starts a server with all roles. Raises BenchFailed when it does not start.

    `runner` are the words between the interpreter and the server's module, in place of `-m`; `options` are
    more options of `serve`, which has no Kafka listener unless they configure one.
    """
    ready, log = folder / "ready.json", folder / "server.log"
    if runner is None:
        runner = ("-m",) if profile is None else ("-m", "cProfile", "-o", str(profile), "-m")
    if "--kafka" not in options:
        options = (*options, "--kafka", "none")
    words = [*checkout.serve_command(runner=runner), "--grpc", "127.0.0.1:0", "--fsync", fsync]
    words += ["--data", str(folder / "data"), "--ready-file", str(ready), *options]
    environment = {**checkout.environment(), **(variables or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            cwd=checkout.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        facts = _facts(process, ready, log)
        yield Serving(str(facts["grpc"]), str(facts.get("kafka") or ""), process.pid)
    finally:
        end(process)


def _facts(process: subprocess.Popen[bytes], ready: Path, log: Path) -> Mapping[str, object]:
    """Waits for the ready file and returns its contents."""
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise BenchFailed(f"serve did not start: {lines[-1] if lines else 'its log is empty'}")
        time.sleep(0.05)
    facts: Mapping[str, object] = json.loads(ready.read_bytes())
    return facts


def fsync_seconds(folder: Path) -> list[float]:
    """Measures appends of 4 KB that are forced to the disk that the servers write to; seconds of each."""
    took = []
    with (folder / "fsync.probe").open("wb", buffering=0) as file:
        for _ in range(FSYNC_PROBES):
            begun = time.perf_counter()
            file.write(b"x" * FSYNC_BYTES)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return took
