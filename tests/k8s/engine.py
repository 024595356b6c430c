"""A separate Docker engine for building images: it touches no other engine, and nothing of it remains."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.k8s.parts import CACHE, Missing
from tests.testkit.waiting import until

_BRIDGE: Final = "172.30.77.1/24"
_TIME: Final = 1200.0


@dataclass(frozen=True)
class Engine:
    """A client that builds with secrets, and its engine."""

    client: str
    environment: Mapping[str, str]

    def run(self, *words: str, quiet: bool = True) -> str:
        """Runs a command of the client. Raises Missing with its output if it fails."""
        done = subprocess.run(
            [self.client, *words],
            env={**os.environ, **self.environment},
            capture_output=quiet,
            text=True,
            check=False,
            timeout=_TIME,
        )
        if done.returncode:
            output = (done.stderr or "")[-2000:] if quiet else "see above"
            raise Missing(f"docker {words[0]} failed: {output}")
        return done.stdout if quiet else ""

    def has(self, image: str) -> bool:
        """Returns whether an image exists."""
        try:
            self.run("image", "inspect", image)
        except Missing:
            return False
        return True

    def build(self, image: str, dockerfile: Path, context: Path, arguments: Sequence[str] = ()) -> None:
        """Builds an image with the options in BUILD, as `make image` does."""
        more = shlex.split(os.environ.get("BUILD", ""))
        where = ["-f", str(dockerfile), "-t", image, str(context)]
        self.run("build", "-q", "--network=host", *more, *arguments, *where)


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """Starts an engine, and removes it with all its data."""
    folder = Path(tempfile.mkdtemp(prefix="sharebroker-docker-"))
    socket = f"unix://{folder}/docker.sock"
    settings = {"DOCKER_HOST": socket, "DOCKER_BUILDKIT": "1"}
    # Layers are cached, so the next image costs only what is new in it.
    options = [f"--data-root={CACHE}/docker", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    options += [f"--host={socket}", f"--bip={_BRIDGE}", "--storage-driver=overlay2"]
    options += ["--iptables=false", "--ip6tables=false", "--ip-forward=false"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["dockerd", *options], stdout=log, stderr=log)
    try:
        made = Engine(_client(settings), settings)
        until(lambda: process.poll() is not None or _answers(made), 60)
        if process.poll() is not None:
            raise Missing(f"dockerd does not start: {(folder / 'log').read_text()[-1000:]}")
        yield made
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        subprocess.run(["ip", "link", "del", "docker0"], capture_output=True, check=False, timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _client(settings: Mapping[str, str]) -> str:
    """Returns a client that supports build secrets: newer ones need the plugin buildx for that."""
    for client in ("docker", "/usr/bin/docker"):
        environment = {**os.environ, **settings}
        done = subprocess.run(
            [client, "build", "--help"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        if "--secret" in done.stdout:
            return client
    raise Missing("No Docker client here builds with secrets: apt-get install docker.io")


def _answers(engine: Engine) -> bool:
    try:
        engine.run("version")
    except Missing:
        return False
    return True
