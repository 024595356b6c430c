"""Apache Kafka's own programs for tests: its command line tools, and real brokers to compare with.

Needs the jars of `make kafka` and Java 17; tests that use it are marked with `needs_kafka`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.kafka_jars import SERVER, JarSet, is_there

TOOL_FLAGS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For a JVM that runs for seconds."""

TOOL_SECONDS: Final = 60.0

needs_kafka: Final = pytest.mark.skipif(
    shutil.which("java") is None or not is_there(SERVER),
    reason="Kafka's jars or Java 17 are missing: make kafka",
)


class ToolFailed(Exception):
    """A tool ended with an error or not in time; the text has its last words."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a tool did."""

    command: str
    code: int
    out: str
    err: str

    def checked(self) -> Ran:
        """Itself. Raises ToolFailed when the tool did not exit with 0."""
        if self.code:
            raise ToolFailed(f"{self.command}: exit code {self.code}\n{self.out}\n{self.err}")
        return self

    @property
    def lines(self) -> list[str]:
        """Its output without blank lines."""
        return [line for line in self.out.splitlines() if line.strip()]


def java(main: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS) -> list[str]:
    """A command that runs a main class; its class path comes by `java_environment`."""
    return ["java", *flags, main, *arguments]


def java_environment(jars: JarSet = SERVER, extra: Sequence[Path] = ()) -> dict[str, str]:
    """Environment with the class path of a set of jars, `extra` folders before them."""
    return {**os.environ, "CLASSPATH": os.pathsep.join([*(str(path) for path in extra), jars.class_path])}


def run_tool(
    main: str,
    *arguments: str,
    stdin: str = "",
    timeout: float = TOOL_SECONDS,
    jars: JarSet = SERVER,
) -> Ran:
    """Run a Kafka tool to its end, `stdin` typed in. Raises ToolFailed when `timeout` seconds are over."""
    try:
        done = subprocess.run(
            java(main, *arguments),
            env=java_environment(jars),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise ToolFailed(f"{main}: not done after {timeout:g} s\n{late.stdout!r}\n{late.stderr!r}") from None
    return Ran(f"{main} {' '.join(arguments)}", done.returncode, done.stdout, _without_warnings(done.stderr))


def _without_warnings(err: str) -> str:
    return "\n".join(line for line in err.splitlines() if not line.startswith("SLF4J:"))


def end_at_once(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process to end and return as soon as it has; it is killed after `patience` seconds."""
    process.terminate()
    timer = threading.Timer(patience, process.kill)
    timer.start()
    process.wait()  # waiting with a time limit would look only every now and then
    timer.cancel()


def as_properties(values: Mapping[str, object]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{key}={value}\n" for key, value in values.items())
