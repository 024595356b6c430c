"""What a run measures against: a raw Valkey, and `serve` in a process of its own; each in a fresh folder."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharebroker_server.broker.settings import Fsync
from sharebroker_server.redis_link.embedded.server import EmbeddedRedis
from tests.perf.processes import ROOT, BenchFailed, end, environment, python

START_SECONDS: Final = 30.0
FSYNC_PROBES: Final = 200
FSYNC_BYTES: Final = 4096


@contextlib.asynccontextmanager
async def raw_valkey(folder: Path, fsync: Fsync) -> AsyncIterator[str]:
    """The URL of a Valkey started exactly as the product starts its own."""
    server = EmbeddedRedis(folder / "raw", fsync=fsync)
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that is up: where, and as which process."""

    address: str
    pid: int

    def cpu_seconds(self) -> float:
        """CPU that it and its Valkey have used."""
        return cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """CPU that a process and its children have used; 0 where the system does not tell (it is not Linux)."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    if not tasks.exists():
        return 0.0
    return sum(_cpu_seconds(one) for one in (str(pid), *tasks.read_text().split()))


def _cpu_seconds(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(folder: Path, fsync: Fsync, profile: Path | None = None) -> Iterator[Serving]:
    """A server with all roles. Raises BenchFailed when it does not come up."""
    ready, log = folder / "ready.json", folder / "server.log"
    words = [
        "sharebroker_server.broker",
        "--grpc",
        "127.0.0.1:0",
        "--kafka",
        "none",
        "--data",
        str(folder / "data"),
    ]
    words += ["--ready-file", str(ready), "--fsync", fsync]
    with log.open("wb") as output:
        process = subprocess.Popen(
            python(*words, profile=profile), cwd=ROOT, env=environment(), stdout=output, stderr=output
        )
    try:
        yield Serving(_address(process, ready, log), process.pid)
    finally:
        end(process)


def _address(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise BenchFailed(f"serve did not come up: {lines[-1] if lines else 'it said nothing'}")
        time.sleep(0.05)
    return str(json.loads(ready.read_bytes())["grpc"])


def fsync_seconds(folder: Path) -> list[float]:
    """What it takes to append 4 KB to a file and force it to the disk that the servers write to."""
    took = []
    with (folder / "fsync.probe").open("wb", buffering=0) as file:
        for _ in range(FSYNC_PROBES):
            begun = time.perf_counter()
            file.write(b"x" * FSYNC_BYTES)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return took
