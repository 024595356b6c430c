"""Worker processes and what they report."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sharebroker_server.flights.core.ledger import Ledger
from sharebroker_server.flights.core.report import enter

_LONGEST_REPORT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker of a fleet does."""

    server: str
    group: str
    topic: str


class Fleet:
    """Workers in one share group; their reports go into the ledger as they come.

    A worker works until its standard input is closed, so it also ends with the process that started it.
    """

    def __init__(self, job: Job, ledger: Ledger) -> None:
        self._job = job
        self._ledger = ledger
        self._processes: dict[str, Process] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._to_freeze: Callable[[str], bool] | None = None

    async def start(self, workers: int) -> None:
        """Starts the workers, `worker-1` and so on."""
        for number in range(1, workers + 1):
            name = f"worker-{number}"
            self._processes[name] = await self._spawn(name)
            self._readers[name] = asyncio.create_task(self._read(name))

    def freeze_when(self, condition: Callable[[str], bool]) -> None:
        """Stops the first worker where it stands whose report makes the condition true of it.

        It is like a process that hangs: its connection stays open.
        """
        self._to_freeze = condition

    async def kill(self, name: str) -> None:
        """Ends the worker at once with SIGKILL."""
        self._processes[name].kill()
        await self._readers[name]

    def failed(self) -> list[str]:
        """Workers that ended though nobody asked them to, with their exit codes."""
        return [
            f"{name} ended with exit code {process.returncode}"
            for name, process in self._processes.items()
            if process.returncode not in (None, 0, -signal.SIGKILL)
        ]

    async def stop(self) -> None:
        """Lets every worker finish what it holds and waits for the last report."""
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
        # A session of its own: Ctrl-C in the terminal is the supervisor's to act on.
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_REPORT, start_new_session=True
        )

    async def _read(self, name: str) -> None:
        process = self._processes[name]
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):  # a killed worker may leave half a line
                enter(line, name, self._ledger)
                self._look_whether_to_freeze(name)
        await process.wait()
        self._ledger.died(name)

    def _look_whether_to_freeze(self, name: str) -> None:
        if self._to_freeze is not None and self._to_freeze(name):
            self._processes[name].send_signal(signal.SIGSTOP)
            self._to_freeze = None
