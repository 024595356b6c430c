"""The JVM in which Kafka's tests run: our few classes compiled beside Kafka's, and one line of JSON per
message.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from tests.support.kafka_jars import ROOT, SUITE, WIRE
from tests.support.kafka_tools import java, java_environment

SOURCES: Final = ROOT / "tests" / "compat" / "java"
COMPILE_SECONDS: Final = 120.0
LEAVE_SECONDS: Final = 10.0


class JvmEnded(Exception):
    """The JVM ended before it responded."""


class DoesNotCompile(Exception):
    """The errors that javac reports for our classes."""


def compile_classes(folder: Path) -> None:
    """Compiles our classes into a new folder. Raises DoesNotCompile."""
    shutil.copytree(SOURCES / "META-INF", folder / "META-INF")
    sources = [str(path) for path in sorted(SOURCES.rglob("*.java"))]
    command = ["javac", "-cp", SUITE.class_path, "-d", str(folder), *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
    if done.returncode:
        raise DoesNotCompile(done.stderr)


class Jvm:
    """One process; `methods` are the tests of its class."""

    def __init__(self, tests: str, classes: Path, log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                java("sharebroker.compat.Worker", tests),
                env=java_environment(SUITE, [classes, WIRE.folder / "*"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self.methods: list[str] = self.receive()["methods"]

    def send(self, message: Mapping[str, object]) -> None:
        """Sends one message. Raises JvmEnded."""
        stream = _open(self._process.stdin)
        try:
            stream.write(json.dumps(message) + "\n")
            stream.flush()
        except OSError as error:
            raise JvmEnded(str(error)) from None

    def receive(self) -> dict[str, Any]:
        """Returns the next message. Raises JvmEnded."""
        line = _open(self._process.stdout).readline()
        if not line:
            raise JvmEnded("the JVM ended")
        message: dict[str, Any] = json.loads(line)
        return message

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Kills the JVM if the block takes longer than `seconds`, so that no caller waits indefinitely."""
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self) -> None:
        """Waits for its end, and kills it after a timeout."""
        with contextlib.suppress(OSError):
            _open(self._process.stdin).close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _open(self._process.stdout).close()


def _open(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise JvmEnded("the JVM has no such stream")
    return stream
