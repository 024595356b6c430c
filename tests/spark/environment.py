"""Spark programs under test, run by the interpreter of Spark's environment, each in a process group."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.architecture.sources import ROOT
from tests.testkit.waiting import until

ENVIRONMENT: Final = ROOT / ".venv-spark"
_FOLDERS: Final = ("", "services", "libs/protocol", "libs/python_client", "libs/spark_source")
"""Folders of this checkout that programs import from, whatever the environment has installed."""

START_SECONDS: Final = 600.0
"""A machine that is busy takes long to start Spark."""

needs_spark: Final = pytest.mark.skipif(
    not (ENVIRONMENT / ".ready").exists(), reason="Spark's environment is missing: make spark"
)


class Program:
    """A program that says what it sees, one JSON object a line on standard output."""

    def __init__(self, name: str, folder: Path, *arguments: str, **environment: str) -> None:
        self._out = folder / "out"
        self._err = folder / "err"
        folder.mkdir()
        command = [str(ENVIRONMENT / "bin" / "python"), "-m", f"tests.spark.programs.{name}", *arguments]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env=variables(folder) | environment,
                cwd=folder,
            )

    @property
    def said(self) -> list[dict[str, Any]]:
        """What it said so far; Spark prints other things, too."""
        lines = self._out.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        return self._err.read_text(errors="replace")

    def value(self, name: str) -> Any:
        """The last that was said under a name; None: nothing yet."""
        return next((one[name] for one in reversed(self.said) if name in one), None)

    def says(self, name: str) -> Any:
        """Wait until it says something under a name; what."""
        self.until(lambda: self.value(name) is not None)
        return self.value(name)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something while it runs."""
        until(lambda: condition() or self.process.poll() is not None, START_SECONDS)
        assert condition(), f"ended with {self.process.returncode}:\n{self.errors[-5000:]}"

    def ends(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(START_SECONDS)

    def kill(self) -> None:
        """End it with all its processes at once, as a crash of the machine would."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)


@contextmanager
def running(name: str, folder: Path, *arguments: str, **environment: str) -> Iterator[Program]:
    """A program, ended at the end, with these variables in its environment."""
    program = Program(name, folder, *arguments, **environment)
    try:
        yield program
    finally:
        program.kill()


def variables(folder: Path) -> dict[str, str]:
    """What a program of Spark's environment is started with; what it leaves behind is left in `folder`."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(ENVIRONMENT / "bin" / "python"),
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in _FOLDERS),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "TMPDIR": str(folder),
        # What is short-lived is not worth being compiled well.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
        f"-Djava.io.tmpdir={folder}",
    }
    if (home := ENVIRONMENT / "spark-home").exists():  # there Python's modules are compiled
        environment["SPARK_HOME"] = str(home)
    if shutil.which("java") is None:
        environment["JAVA_HOME"] = str(ENVIRONMENT / "java")
    return environment
