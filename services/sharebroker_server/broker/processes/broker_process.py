"""The process of one broker, from its start to its exit."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import orjson

from sharebroker_server.broker.processes.plan import BrokerStart

_MODULE: Final = "sharebroker_server.broker.processes.child"

Command = tuple[str, ...]

BROKER: Final[Command] = (sys.executable, "-P", "-m", _MODULE)
"""Without -P the working directory would be searched for modules."""


class BrokerExit(NamedTuple):
    """The exit code of a broker, negative for a signal, and the sentence that it reported, or ""."""

    code: int
    reason: str


class BrokerProcess:
    """Call `run` once. `on_serving` gets the addresses of the broker when it serves."""

    def __init__(
        self,
        start: BrokerStart,
        on_serving: Callable[[Mapping[str, object]], None],
        command: Command = BROKER,
    ) -> None:
        self._start = start
        self._on_serving = on_serving
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._early: signal.Signals | None = None

    async def run(self) -> BrokerExit:
        """Runs the broker to its end. A broker that cannot be started counts as one that exits with 1."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C must reach only the supervisor, which drains the brokers
            )
        except OSError as error:
            return BrokerExit(1, f"The process cannot be started: {error.strerror}.")
        self._process = process
        try:
            if self._early is not None:
                self.signal(self._early)
            assert process.stdin is not None
            assert process.stdout is not None
            await self._give_settings(process.stdin)
            reason = await self._read_reports(process.stdout)
            return BrokerExit(await process.wait(), reason)
        finally:
            if process.returncode is None:
                process.kill()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the broker, as soon as its process exists."""
        self._early = number
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _give_settings(self, stdin: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # it has exited
            stdin.write(pickle.dumps(self._start))
            await stdin.drain()
        stdin.close()

    async def _read_reports(self, stdout: asyncio.StreamReader) -> str:
        reason = ""
        async for line in stdout:
            facts = orjson.loads(line)
            if "error" in facts:
                reason = facts["error"]
            else:
                self._on_serving(facts)
        return reason
