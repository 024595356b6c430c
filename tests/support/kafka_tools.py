"""Apache Kafka's own programs for tests: its command-line tools, and real brokers for comparison.

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

from tests.support.class_data import class_data
from tests.support.java_programs import archive, programs
from tests.support.kafka_jars import SERVER, JarSet, is_there

TOOL_FLAGS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM flags for programs that run for seconds."""

TOOL_SECONDS: Final = 60.0

needs_kafka: Final = pytest.mark.skipif(
    shutil.which("java") is None or not is_there(SERVER),
    reason="Kafka's jars or Java 17 are missing: make kafka",
)


class ToolFailed(Exception):
    """A tool failed or timed out; the text has the end of its output."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a tool."""

    command: str
    code: int
    out: str
    err: str

    def checked(self) -> Ran:
        """Returns itself. Raises ToolFailed when the tool did not exit with 0."""
        if self.code:
            raise ToolFailed(f"{self.command}: exit code {self.code}\n{self.out}\n{self.err}")
        return self

    @property
    def lines(self) -> list[str]:
        """Returns its output without blank lines."""
        return [line for line in self.out.splitlines() if line.strip()]


def java(main: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS) -> list[str]:
    """Returns a command that runs a main class; `java_environment` provides its class path."""
    return ["java", *flags, main, *arguments]


def java_environment(jars: JarSet = SERVER, extra: Sequence[Path] = ()) -> dict[str, str]:
    """Returns an environment with the class path of a set of jars, preceded by `extra` folders and jars."""
    return {**os.environ, "CLASSPATH": os.pathsep.join([*(str(path) for path in extra), jars.class_path])}


def run_tool(
    main: str,
    *arguments: str,
    stdin: str = "",
    timeout: float = TOOL_SECONDS,
    jars: JarSet = SERVER,
) -> Ran:
    """Runs a Kafka tool to its end with this standard input. Raises ToolFailed after `timeout` seconds."""
    # The tools share one archive, of the tool that ran first.
    return _run(main, arguments, java_environment(jars), jars.folder / "tools.jsa", stdin, timeout)


def run_program(
    main: str,
    *arguments: str,
    stdin: str = "",
    timeout: float = TOOL_SECONDS,
    jars: JarSet = SERVER,
) -> Ran:
    """Runs a Java program of the tests as `run_tool` does."""
    return _run(main, arguments, java_environment(jars, [programs()]), archive(jars), stdin, timeout)


def _run(
    main: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    data: Path,
    stdin: str,
    timeout: float,
) -> Ran:
    try:
        with class_data(data) as flags:
            done = subprocess.run(
                java(main, *arguments, flags=[*TOOL_FLAGS, *flags]),
                env=environment,
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
    """Terminates a process and returns as soon as it has ended; kills it after `patience` seconds."""
    process.terminate()
    timer = threading.Timer(patience, process.kill)
    timer.start()
    process.wait()  # a wait with a time limit would poll at long intervals
    timer.cancel()


def as_properties(values: Mapping[str, object]) -> str:
    """Returns the text of a Java properties file."""
    return "".join(f"{key}={value}\n" for key, value in values.items())
