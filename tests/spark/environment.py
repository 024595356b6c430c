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

from sharebroker_server.pipeline.spark_process import java_options
from tests.architecture.sources import ROOT
from tests.testkit.waiting import until

ENVIRONMENT: Final = ROOT / ".venv-spark"
_FOLDERS: Final = ("", "services", "libs/protocol", "libs/python_client", "libs/spark_source")
"""Folders of this checkout that programs import from, whatever the environment has installed."""

START_SECONDS: Final = 600.0
"""Spark starts slowly on a busy machine."""

needs_spark: Final = pytest.mark.skipif(
    not (ENVIRONMENT / ".ready").exists(), reason="Spark's environment is missing: make spark"
)


class Program:
    """A program that reports its results, one JSON object a line on standard output."""

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
    def reports(self) -> list[dict[str, Any]]:
        """Returns its reports so far; Spark's other output is skipped."""
        lines = self._out.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    @property
    def errors(self) -> str:
        """Returns its standard error."""
        return self._err.read_text(errors="replace")

    def value(self, name: str) -> Any:
        """Returns the last value reported under a name; None if there is none yet."""
        return next((one[name] for one in reversed(self.reports) if name in one), None)

    def wait_for_value(self, name: str) -> Any:
        """Waits until it reports a value under a name; returns the value."""
        self.until(lambda: self.value(name) is not None)
        return self.value(name)

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition while it runs."""
        until(lambda: condition() or self.process.poll() is not None, START_SECONDS)
        assert condition(), f"ended with {self.process.returncode}:\n{self.errors[-5000:]}"

    def ends(self) -> int:
        """Waits for its end; returns the exit code."""
        return self.process.wait(START_SECONDS)

    def kill(self) -> None:
        """Kills it with all its processes at once, like a crash of the machine."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)


@contextmanager
def running(name: str, folder: Path, *arguments: str, **environment: str) -> Iterator[Program]:
    """Provides a running program with these variables in its environment; ends it afterwards."""
    program = Program(name, folder, *arguments, **environment)
    try:
        yield program
    finally:
        program.kill()


def variables(folder: Path) -> dict[str, str]:
    """Returns the environment of a program in Spark's environment; its files stay in `folder`."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(ENVIRONMENT / "bin" / "python"),
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in _FOLDERS),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "TMPDIR": str(folder),
        # Short-lived code is not worth optimised compilation.
        "JDK_JAVA_OPTIONS": java_options(
            ENVIRONMENT, f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}"
        ),
    }
    if (home := ENVIRONMENT / "spark-home").exists():  # Python's modules are compiled there
        environment["SPARK_HOME"] = str(home)
    if shutil.which("java") is None:
        environment["JAVA_HOME"] = str(ENVIRONMENT / "java")
    return environment
