"""Worker processes and their reports."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sharebroker_server.flights.core.ledger import Ledger
from sharebroker_server.flights.core.report import add_report

_MAX_REPORT_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """The work of every worker of a fleet."""

    server: str
    group: str
    topic: str


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
        command = [
            sys.executable,
            "-m",
            "sharebroker_server.flights.worker",
            job.server,
            job.group,
            job.topic,
            name,
        ]
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
