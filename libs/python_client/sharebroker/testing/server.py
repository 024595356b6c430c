"""A server as a process of its own, with its data in a temporary folder.

Every pytest run in the environment imports this module, so it loads the client on first use.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from sharebroker.blocking.admin import Admin

POLL_SECONDS: Final = 0.02
STOP_SECONDS: Final = 15.0
LOG_LINES: Final = 20
"""Lines of the log in the text of an error."""

IGNORED_VARIABLES: Final = frozenset(
    {"SHAREBROKER_CLUSTER_SECRET_FILE", "SHAREBROKER_METRICS", "SHAREBROKER_REDIS"}
)
"""Variables of `sharebroker serve`. With them, a server for tests would use the Redis of another one."""


class ServerStartError(RuntimeError):
    """The server is not installed, ended during its start, or did not start in time."""


class Server:
    """A server that runs until `stop`, or until the end of a `with` block.

    Its data is in a temporary folder that `stop` deletes. It listens on free ports of 127.0.0.1.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        options: Sequence[str] = (),
        start_timeout: float = 60.0,
    ) -> None:
        """`settings` are broker properties; `options` are further options of `sharebroker serve`.

        `start_timeout` is in seconds.
        """
        properties = [f"--set={name}={value}" for name, value in (settings or {}).items()]
        self._options = [*properties, *options]
        self._start_timeout = start_timeout
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._addresses: Mapping[str, object] = {}

    @property
    def address(self) -> str:
        """The `host:port` for this client and for gRPC. Raises RuntimeError if the server does not run."""
        return self._address("grpc")

    @property
    def kafka(self) -> str:
        """The `host:port` for Kafka clients. Raises RuntimeError if the server does not run."""
        return self._address("kafka")

    @property
    def log(self) -> str:
        """The log of the running server, as JSON lines; empty if it does not run."""
        if self._folder is None:
            return ""
        with suppress(FileNotFoundError):
            return (self._folder / "log").read_text(errors="replace")
        return ""

    def __enter__(self) -> Self:
        """Starts the server. Raises ServerStartError."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the server."""
        self.stop()

    def start(self) -> None:
        """Starts the server and waits until it serves.

        Raises ServerStartError, and RuntimeError if the server runs already.
        """
        if self._process is not None:
            raise RuntimeError("The server runs already.")
        command = serve_command()
        self._folder = Path(tempfile.mkdtemp(prefix="sharebroker-"))
        try:
            self._process = self._launch(command, self._folder)
            self._addresses = self._wait(self._process, self._folder / "ready.json")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the server and deletes its data. A second call has no effect."""
        process, self._process = self._process, None
        folder, self._folder = self._folder, None
        self._addresses = {}
        try:
            if process is not None:
                _end(process)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def admin(self) -> Admin:
        """Returns a client for the administration of the server; the caller closes it."""
        from sharebroker.blocking.admin import Admin

        return Admin(self.address)

    def create_topic(self, name: str | None = None, partitions: int = 1) -> str:
        """Creates a topic and returns its name; without `name`, one that no other topic has."""
        name = name or f"topic-{uuid.uuid4().hex}"
        with self.admin() as admin:
            admin.create_topic(name, partitions)
        return name

    def create_group(self, name: str | None = None, configs: Mapping[str, str] | None = None) -> str:
        """Configures a group that starts at the first record of its topics, and returns its name.

        `configs` are further properties of the group. Without `name` the group has a name of its own.
        """
        name = name or f"group-{uuid.uuid4().hex}"
        with self.admin() as admin:
            admin.alter_group_configs(name, {"share.auto.offset.reset": "earliest", **(configs or {})})
        return name

    def _address(self, listener: str) -> str:
        if listener not in self._addresses:
            raise RuntimeError("The server does not run.")
        return str(self._addresses[listener])

    def _launch(self, command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
        files = ["--data", str(folder / "data"), "--ready-file", str(folder / "ready.json")]
        listeners = ["--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]
        # Tests do not need data that survives a power failure.
        speed = ["--fsync", "everysec", "--log-format", "json"]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, *files, *listeners, *speed, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name not in IGNORED_VARIABLES},
            )

    def _wait(self, process: subprocess.Popen[bytes], ready: Path) -> Mapping[str, object]:
        for _ in range(max(1, round(self._start_timeout / POLL_SECONDS))):
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_SECONDS)
                raise ServerStartError(f"The server ended with exit code {code}:\n{self._last_lines()}")
            if ready.exists():
                addresses: Mapping[str, object] = json.loads(ready.read_text())
                return addresses
        raise ServerStartError(
            f"The server did not start in {self._start_timeout:g} s:\n{self._last_lines()}"
        )

    def _last_lines(self) -> str:
        return "\n".join(self.log.splitlines()[-LOG_LINES:])


def serve_command() -> list[str]:
    """Returns the command line of the installed server.

    It is this interpreter's server, or else the command `sharebroker` with the server installed. Raises
    ServerStartError if there is none.
    """
    if find_spec("sharebroker_server") is not None:
        return [sys.executable, "-m", "sharebroker_server.broker"]
    installed = shutil.which("sharebroker")
    if installed is None:
        raise ServerStartError("The server is not installed: pip install sharebroker-server")
    return [installed, "serve"]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
