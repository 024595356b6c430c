"""The supervisor of `serve --processes`: starts the brokers, restarts them and stops them.

It serves no clients.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import structlog

from sharebroker_server.broker.core.supervision import BrokerAction, CommandEnd, Step, Supervision
from sharebroker_server.broker.logs import Format
from sharebroker_server.broker.processes.broker_process import BROKER, BrokerExit, BrokerProcess, Command
from sharebroker_server.broker.processes.plan import BrokerStart
from sharebroker_server.broker.processes.shared import Shared, open_shared
from sharebroker_server.broker.processes.status import SupervisorStatus
from sharebroker_server.broker.settings import ServeSettings

_log = structlog.get_logger()

Event = Callable[[float], list[Step]]
"""Changes the supervision at a time, and returns what is to be done."""


class Supervisor:
    """Runs the brokers of `settings`, with this process as their parent; call `run` once."""

    def __init__(
        self,
        settings: ServeSettings,
        log_format: Format = "auto",
        audit_file: Path | None = None,
        command: Command = BROKER,
    ) -> None:
        self._settings = settings
        self._logs = log_format, audit_file
        self._command = command
        self._supervision = Supervision(settings.processes)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._processes: dict[int, BrokerProcess] = {}
        self._facts: dict[int, Mapping[str, object]] = {}
        self._status = SupervisorStatus(settings, self._supervision)

    async def run(self) -> CommandEnd:
        """Serves until SIGTERM or SIGINT, or until a broker fails. Raises KafkaError INVALID_CONFIG."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._events.put_nowait, self._supervision.on_signal)
        async with AsyncExitStack() as stack:
            await self._status.start(stack)
            shared = await open_shared(self._settings, self._status.observability, stack)
            self._status.export(shared.address, stack)
            async with asyncio.TaskGroup() as tasks:
                return await self._supervise(shared, tasks)

    async def _supervise(self, shared: Shared, tasks: asyncio.TaskGroup) -> CommandEnd:
        loop = asyncio.get_running_loop()
        steps = self._supervision.begin() if self._events.empty() else []  # else a signal has arrived
        while True:
            for action, index in steps:
                self._perform(action, index, shared, tasks)
            if (end := self._supervision.outcome) is not None:
                return end
            event = await self._next_event()
            served = self._supervision.ending is None
            steps = event(loop.time())
            if served and self._supervision.ending is not None:
                self._status.stopping(self._supervision.ending)

    async def _next_event(self) -> Event:
        try:
            async with asyncio.timeout_at(self._supervision.deadline):
                return await self._events.get()
        except TimeoutError:
            return self._supervision.on_time

    def _perform(self, action: BrokerAction, index: int, shared: Shared, tasks: asyncio.TaskGroup) -> None:
        match action:
            case BrokerAction.START:
                start = BrokerStart(index, shared.brokers[index], shared.peers, *self._logs)
                process = BrokerProcess(start, partial(self._on_serving, index), self._command)
                self._processes[index] = process
                tasks.create_task(self._run(index, process), name=f"broker {index}")
            case BrokerAction.TERMINATE:
                self._processes[index].signal(signal.SIGTERM)
            case BrokerAction.KILL:
                _log.warning("broker still runs; killing it", broker=index)
                self._processes[index].signal(signal.SIGKILL)
            case BrokerAction.REPORT:
                self._status.serving(shared, self._kafka())

    async def _run(self, index: int, process: BrokerProcess) -> None:
        exited = await process.run()
        self._events.put_nowait(partial(self._on_exit, index, exited))

    def _on_serving(self, index: int, facts: Mapping[str, object]) -> None:
        self._facts[index] = facts
        self._events.put_nowait(partial(self._supervision.on_serving, index))

    def _on_exit(self, index: int, exited: BrokerExit, now: float) -> list[Step]:
        reason = exited.reason or f"exit code {exited.code}"
        stopping = self._supervision.ending is not None
        steps = self._supervision.on_exit(index, exited.code, reason, now)
        if not stopping and self._supervision.ending is None:
            _log.error("broker exited; restarting", broker=index, exit_code=exited.code, reason=exited.reason)
        return steps

    def _kafka(self) -> list[str]:
        """Returns the addresses of the brokers for Kafka clients."""
        return [str(facts["kafka"]) for _, facts in sorted(self._facts.items()) if facts["kafka"]]
