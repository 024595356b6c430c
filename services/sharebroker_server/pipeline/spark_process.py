"""Spark as a process: its environment, its start, and the progress in its output."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sharebroker_server.pipeline.run_folder import RunFolder

VARIABLE: Final = "SHAREBROKER_SPARK"
_NAME: Final = ".venv-spark"
_HOME: Final = "spark-home"
_CLASSES: Final = "classes.jsa"
_PARTS: Final = (".ready", "bin/python", _HOME)
"""The files of a complete environment; older ones lack the last."""

_STOP_SECONDS: Final = 20.0
_LAST_BYTES: Final = 200_000

_FLOW: Final = re.compile(r"Flow '?(?:\w+\.)*(\w+)'? (?:is|has) ([A-Z]+)")
_UNRESOLVED: Final = re.compile(r"Failed to resolve flow: '(?:\w+\.)*(\w+)'")
_FAILED: Final = "FAILED"
_WAITING: Final = frozenset({"QUEUED", "PLANNING", "STARTING"})
_NOT_YET: Final = frozenset({*_WAITING, "RUNNING"})
_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Exception|Error)): (.+)$")
_CAUSES: Final = re.compile(
    r"(?:sharebroker\w*\.[\w.]*|pyspark\.errors\.\w+\.)?(\w*(?:Error|Exception)): (.+)"
)
_STARTS: Final = {
    "Creating Spark session": "starting Spark",
    "Registering graph elements": "reading the definitions",
    "Starting run": "planning",
    "Run is COMPLETED": "done",
}
_MAX_LENGTH: Final = 300


class NoSparkError(Exception):
    """The environment does not exist; the message names the remedy."""


def find_spark(given: Path | None) -> Path:
    """Returns the given environment, else one beside this one or below the working directory.

    Raises NoSparkError.
    """
    candidates = [given] if given is not None else [Path(sys.prefix).with_name(_NAME), Path.cwd() / _NAME]
    for folder in candidates:
        if all((folder / part).exists() for part in _PARTS):
            return folder.absolute()
    places = " and ".join(dict.fromkeys(map(str, candidates)))
    raise NoSparkError(
        f"Spark's environment is missing or too old (looked for {places}): `make spark` installs it (1 GB); "
        f"--spark or {VARIABLE} sets another path."
    )


def python_of(spark: Path) -> str:
    """Returns its Python interpreter."""
    return str(spark / "bin" / "python")


def java_options(spark: Path, others: str) -> str:
    """Returns the flags of Spark's JVMs: other flags, and the class data archive of the environment, if any.

    The archive halves the start of Spark. A JVM ignores one that others wrote, and would print why.
    """
    archive = spark / _CLASSES
    flags = f'-Xshare:auto -Xlog:cds*=off "-XX:SharedArchiveFile={archive}"' if archive.exists() else ""
    return f"{others} {flags}".strip()


def variables(
    spark: Path, folder: RunFolder, inherited: Mapping[str, str], *, local: bool = True
) -> dict[str, str]:
    """Returns the environment variables of a program that finds the code and the settings of a folder.

    If the machine has no Java, the environment's own is used. Unless Spark is local, its driver listens on
    the machine's address, and the inherited PYSPARK_PYTHON is the Python of executors.
    """
    excluded = ("SPARK_CONF_DIR", "SPARK_REMOTE", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in inherited.items() if name not in excluded}
    environment |= {
        "SPARK_HOME": str(spark / _HOME),
        "PYSPARK_DRIVER_PYTHON": python_of(spark),
        "PYTHONPATH": str(folder.code),
        "PYTHONUNBUFFERED": "1",
        # A folder of settings would be part of the class path, and the JVM rejects a class data archive then.
        "PYSPARK_SUBMIT_ARGS": shlex.join(["--properties-file", str(folder.settings), "pyspark-shell"]),
        "JDK_JAVA_OPTIONS": java_options(spark, inherited.get("JDK_JAVA_OPTIONS", "")),
        "GRPC_VERBOSITY": "ERROR",
        "TZ": "UTC",  # of the report
        "MPLCONFIGDIR": str(spark / "matplotlib"),
    }
    if local:
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python_of(spark)}
    environment.setdefault("PYSPARK_PYTHON", python_of(spark))
    if shutil.which("java") is None and "JAVA_HOME" not in inherited:
        environment["JAVA_HOME"] = str(spark / "java")
    return environment


@dataclass(slots=True)
class SparkRun:
    """The progress of a run, from its output."""

    stage: str = "starting Spark"
    flows: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def parse_line(self, line: str) -> None:
        """Parses one line."""
        text = line.strip()
        if found := _FLOW.search(text):
            name, state = found.groups()
            self.flows[name] = state
            self.stage = self._stage()
        if unresolved := _UNRESOLVED.search(text):
            self.flows[unresolved[1]] = _FAILED
        for start, stage in _STARTS.items():
            if start in text:
                self.stage = stage
        if failed := _ERROR.match(text):
            self.error = f"{failed[1]}: {failed[2]}"[:_MAX_LENGTH]

    @property
    def working(self) -> bool:
        """Whether tables are being computed."""
        return any(state not in _WAITING for state in self.flows.values())

    @property
    def done(self) -> int:
        """The number of finished tables."""
        return sum(state not in _NOT_YET and state != _FAILED for state in self.flows.values())

    @property
    def failed(self) -> list[str]:
        """The names of tables that failed."""
        return sorted(name for name, state in self.flows.items() if state == _FAILED)

    def _stage(self) -> str:
        running = [name for name, state in self.flows.items() if state == "RUNNING"]
        return ", ".join(running[:2]) + (" …" if len(running) > 2 else "") if running else self.stage


def cause(log: str) -> str:
    """Returns the last error in a log without its stack trace; empty without one."""
    found = _CAUSES.findall(log)
    return f"{found[-1][1]}".strip()[:_MAX_LENGTH] if found else ""


class PipelineError(Exception):
    """The run failed; the message names the reason, if known, and the log file."""


@dataclass(frozen=True, slots=True)
class SparkProgram:
    """A run of `spark-pipelines`: the environment of Spark, the folder of its files, and its arguments.

    `lock` is the file descriptor of the folder's lock.
    """

    spark: Path
    folder: RunFolder
    lock: int
    arguments: Sequence[str]
    local: bool = True


def run_spark(program: SparkProgram, on_progress: Callable[[SparkRun], None]) -> None:
    """Runs `spark-pipelines` to its end; calls `on_progress` after every line. Raises PipelineError.

    The launcher runs in its own process group; it stops with this process, and is stopped as a whole at the
    end.
    """
    state, folder = SparkRun(), program.folder
    launcher = [python_of(program.spark), "-m", "sharebroker_server.pipeline.launcher"]
    environment = variables(program.spark, folder, os.environ, local=program.local)
    with (
        folder.log.open("wb") as log,
        subprocess.Popen(
            [*launcher, str(folder.spec), str(folder.report), *program.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(program.lock,),
            cwd=folder.folder,
            env=environment | {"TMPDIR": str(folder.temporary)},
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                state.parse_line(line.decode("utf-8", "replace"))
                on_progress(state)
            code = process.wait()
        finally:
            _end(process)
    if code != 0:
        raise PipelineError(_reason(state, folder, code))


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


def _reason(state: SparkRun, folder: RunFolder, code: int) -> str:
    with folder.log.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _LAST_BYTES))
        text = log.read().decode("utf-8", "replace")
    failed = f" in {', '.join(state.failed)}" if state.failed else ""
    reason = cause(text) or state.error or f"Spark ended with exit code {code}"
    return (
        f"The pipeline failed{failed}: {reason} (log: {folder.log}). "
        "Run it again to continue from its checkpoints."
    )
