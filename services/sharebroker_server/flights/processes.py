"""The processes of a run: the server (`sharebroker serve`), and the workers with their reports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharebroker_server.flights.cluster import Job
from sharebroker_server.flights.core.ledger import Ledger, add_report

_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 20.0
_MAX_REPORT_BYTES: Final = 16 * 1024 * 1024


def interrupt_at_sigterm() -> None:
    """Makes SIGTERM act as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


class NotServingError(Exception):
    """The server did not start; the message names the reason, `exit_code` is the server's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server: the addresses for gRPC and Kafka clients ("" if closed), and its process."""

    address: str
    kafka: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def serving(
    data: Path, grpc: str, kafka: str, properties: Sequence[str], upstream: str = ""
) -> Iterator[ServerProcess]:
    """Runs a server with all roles and its data below `data`. Raises NotServingError.

    The records are in the Kafka cluster `upstream` if it is given.
    """
    data.mkdir(parents=True, exist_ok=True)
    # Another run may have a server on the same data, whose log must not be overwritten.
    ready, starting = data / "ready.json", data / "starting.log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sharebroker_server.broker", "--data", str(data)]
    command += ["--grpc", grpc, "--kafka", kafka, "--ready-file", str(ready)]
    if upstream:
        command += ["--log", f"kafka://{upstream}"]
    for assignment in properties:
        command += ["--set", assignment]
    with starting.open("wb") as output:
        # A session of its own: the supervisor handles Ctrl-C in the terminal.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        facts = _facts(ready, starting, process)
        starting.replace(data / "server.log")
        yield ServerProcess(str(facts["grpc"]), str(facts["kafka"] or ""), process)
    finally:
        _stop(process)


def _facts(ready: Path, log: Path, process: subprocess.Popen[bytes]) -> dict[str, object]:
    while not ready.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(_POLL_SECONDS)
            raise NotServingError(_last_line(log), code)
    return dict(json.loads(ready.read_text()))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "The server exited without output."


class Fleet:
    """Workers in one share group; their reports go into the ledger.

    A worker runs until its standard input is closed, so it also stops with the process that started it.
    """

    def __init__(self, job: Job, ledger: Ledger) -> None:
        self._job = job
        self._ledger = ledger
        self._processes: dict[str, Process] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._freeze_condition: Callable[[str], bool] | None = None

    async def start(self, workers: int) -> None:
        """Starts the workers, `worker-1` and so on."""
        for number in range(1, workers + 1):
            name = f"worker-{number}"
            self._processes[name] = await self._spawn(name)
            self._readers[name] = asyncio.create_task(self._read(name))

    def freeze_when(self, condition: Callable[[str], bool]) -> None:
        """Suspends the first worker for which the condition is true after a report.

        A suspended worker is like a hanging process: its connection stays open.
        """
        self._freeze_condition = condition

    async def kill(self, name: str) -> None:
        """Kills the worker with SIGKILL."""
        self._processes[name].kill()
        await self._readers[name]

    def failed(self) -> list[str]:
        """Returns the workers that exited unexpectedly, with their exit codes."""
        return [
            f"{name} ended with exit code {process.returncode}"
            for name, process in self._processes.items()
            if process.returncode not in (None, 0, -signal.SIGKILL)
        ]

    async def stop(self) -> None:
        """Waits until every worker has finished its records and sent its last report."""
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        await asyncio.gather(*self._readers.values())

    async def _spawn(self, name: str) -> Process:
        job = self._job
        worker = [sys.executable, "-m", "sharebroker_server.flights.worker"]
        command = [*worker, job.server, job.group, job.topic, name]
        # A session of its own: the supervisor handles Ctrl-C in the terminal.
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=_MAX_REPORT_BYTES, start_new_session=True
        )

    async def _read(self, name: str) -> None:
        process = self._processes[name]
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):  # a killed worker may leave a partial line
                add_report(line, name, self._ledger)
                self._freeze_if_due(name)
        await process.wait()
        self._ledger.died(name)

    def _freeze_if_due(self, name: str) -> None:
        if self._freeze_condition is not None and self._freeze_condition(name):
            self._processes[name].send_signal(signal.SIGSTOP)
            self._freeze_condition = None
