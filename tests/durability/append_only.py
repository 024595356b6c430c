"""The append-only file of a stopped server, cut as a power failure would leave it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import redis

from tests.testkit.brokers import Cluster

SHIM = Path(__file__).with_name("synced.c")


class AppendOnlyFile:
    """The growing file below a server's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "appendonlydir"

    @property
    def path(self) -> Path:
        """Returns the newest file."""
        return max(self._folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]))

    @property
    def size(self) -> int:
        """Returns the number of written bytes, including bytes that are not on the disk yet."""
        return self.path.stat().st_size

    def cut(self, size: int) -> None:
        """Discards the bytes after this size."""
        os.truncate(self.path, size)


def embedded(cluster: Cluster) -> Path:
    """Returns the Valkey folder of a process with all roles."""
    return Path(cluster.redis_url.removeprefix("unix://")).parent


def kill(cluster: Cluster) -> None:
    """Kills a process and its Valkey at once: neither can write more."""
    (serve,) = cluster.processes
    assert serve.process is not None
    with redis.Redis.from_url(cluster.redis_url) as connection:
        pid = connection.info("server")["process_id"]
    serve.process.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    serve.kill()


def shim(folder: Path) -> Path:
    """Builds a library that logs the length of files at each fsync. Needs a C compiler."""
    library = folder / "synced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    return library


def synced(notes: Path, path: Path) -> int:
    """Returns how much of a file was surely on the disk, by the shim's log."""
    lengths = [
        int(length)
        for name, length in (line.rsplit(" ", 1) for line in notes.read_text().splitlines())
        if Path(name) == path
    ]
    return max(lengths, default=0)
