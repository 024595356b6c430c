"""ZooKeeper in a separate process, for brokers before KRaft; its jars are among theirs."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.kafka_jars import JarSet
from tests.support.kafka_tools import ToolFailed, as_properties, end_at_once, java, java_environment
from tests.testkit.servers import free_port
from tests.testkit.waiting import until

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


class ZooKeeper:
    """One server with a folder of its own."""

    def __init__(self, folder: Path, flags: Sequence[str], jars: JarSet) -> None:
        self.port = free_port()
        self._folder = folder
        self._flags = flags
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process, and waits until it accepts connections. Raises ToolFailed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "zookeeper.properties"
        config.write_text(
            as_properties(
                {
                    "dataDir": self._folder / "data",
                    "clientPort": self.port,
                    "clientPortAddress": "127.0.0.1",
                    "admin.enableServer": "false",
                    "maxClientCnxns": 0,
                }
            )
        )
        output = self._folder / "output.log"
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                java("org.apache.zookeeper.server.ZooKeeperServerMain", str(config), flags=self._flags),
                env=java_environment(self._jars),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            until(self._accepts, timeout=START_SECONDS)
        except AssertionError:
            raise ToolFailed(f"ZooKeeper does not respond:\n{output.read_text()[-2000:]}") from None

    def stop(self) -> None:
        """Sends SIGTERM, and waits for its end."""
        if self._process is not None:
            end_at_once(self._process, STOP_SECONDS)
            self._process = None

    def _accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False
