"""The append-only file of a server that is not running: cut, as a power failure would leave it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import redis

from tests.testkit.brokers import Cluster

SHIM = Path(__file__).with_name("synced.c")


class AppendOnlyFile:
    """The file below a server's folder that grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "appendonlydir"

    @property
    def path(self) -> Path:
        """The newest one."""
        return max(self._folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]))

    @property
    def size(self) -> int:
        """Bytes that were written, whether they are on the disk or not."""
        return self.path.stat().st_size

    def cut(self, size: int) -> None:
        """Lose what came later."""
        os.truncate(self.path, size)


def embedded(cluster: Cluster) -> Path:
    """The folder of the Valkey of a process with all roles."""
    return Path(cluster.redis_url.removeprefix("unix://")).parent


def fall(cluster: Cluster) -> None:
    """End a process and its Valkey at once: neither can write anything more."""
    (serve,) = cluster.processes
    assert serve.process is not None
    with redis.Redis.from_url(cluster.redis_url) as connection:
        pid = connection.info("server")["process_id"]
    serve.process.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    serve.kill()


def shim(folder: Path) -> Path:
    """A library that notes how long files were when they were last forced to disk. Needs a C compiler."""
    library = folder / "synced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    return library


def synced(notes: Path, path: Path) -> int:
    """How much of a file was on the disk for sure, as the shim has noted."""
    lengths = [
        int(length)
        for name, length in (line.rsplit(" ", 1) for line in notes.read_text().splitlines())
        if Path(name) == path
    ]
    return max(lengths, default=0)
