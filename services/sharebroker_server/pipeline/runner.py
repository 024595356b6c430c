"""Runs Spark as a process and follows its output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sharebroker_server.pipeline.core.events import Run, cause
from sharebroker_server.pipeline.environment import python_of, this_process, variables
from sharebroker_server.pipeline.project import Project

_STOP_SECONDS: Final = 20.0
_LAST_BYTES: Final = 200_000


class PipelineError(Exception):
    """The run failed; the message names the reason, if known, and the log file."""


def run(spark: Path, project: Project, lock: int, command: str, on_progress: Callable[[Run], None]) -> Run:
    """Runs `spark-pipelines` to its end; calls `seen` after every line. Raises PipelineError.

    `lock` is the file descriptor of the folder's lock.
    """
    state = Run()
    with project.log.open("wb") as log, _started(spark, project, command, (log.fileno(), lock)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            log.flush()
            state.parse_line(line.decode("utf-8", "replace"))
            on_progress(state)
        code = process.wait()
    if code != 0:
        raise PipelineError(_reason(state, project, code))
    return state


@contextlib.contextmanager
def _started(
    spark: Path, project: Project, command: str, files: tuple[int, int]
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the launcher in its own process group; it stops with us, and is stopped as a whole
    at the end.
    """
    log, lock = files
    launcher = [python_of(spark), "-m", "sharebroker_server.pipeline.launcher", command]
    process = subprocess.Popen(
        [*launcher, str(project.spec), str(project.report)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        pass_fds=(lock,),
        cwd=project.folder,
        env=variables(spark, project.code, project.settings, this_process())
        | {"TMPDIR": str(project.temporary)},
        start_new_session=True,
    )
    with process:  # closes the pipes
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


def _reason(state: Run, project: Project, code: int) -> str:
    with project.log.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _LAST_BYTES))
        text = log.read().decode("utf-8", "replace")
    failed = f" in {', '.join(state.failed)}" if state.failed else ""
    reason = cause(text) or state.error or f"Spark ended with exit code {code}"
    return (
        f"The pipeline failed{failed}: {reason} (log: {project.log}). "
        "Run it again to continue from its checkpoints."
    )
