"""The process of a broker: what it reports, its signals and its exit."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping

import pytest

from sharebroker_server.broker.identity import PeerListener
from sharebroker_server.broker.processes.broker_process import BrokerExit, BrokerProcess
from sharebroker_server.broker.processes.plan import BrokerStart
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig

PATIENCE = 30.0


class Broker:
    """A broker process that runs a Python script instead of a broker, and what it reported."""

    def __init__(self, script: str, secret: str = "") -> None:
        settings = ServeSettings(redis=secret, config=BrokerConfig.parse(()))
        self.facts: list[Mapping[str, object]] = []
        self.serving = asyncio.Event()
        start = BrokerStart(1, settings, PeerListener("127.0.0.1", "127.0.0.1"))
        self.process = BrokerProcess(start, self._on_serving, (sys.executable, "-I", "-c", script))

    def _on_serving(self, facts: Mapping[str, object]) -> None:
        self.facts.append(facts)
        self.serving.set()

    async def exit(self) -> BrokerExit:
        """Runs it to its end."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.run()


SERVE = 'import signal; print(\'{"kafka": "h:1"}\', flush=True); signal.pause()'


@pytest.mark.parametrize(
    ("script", "exited"),
    [
        ("", BrokerExit(0, "")),
        ("raise SystemExit(3)", BrokerExit(3, "")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", BrokerExit(-9, "")),
        ('print(\'{"error": "A port is taken."}\'); raise SystemExit(2)', BrokerExit(2, "A port is taken.")),
        ("import os; os.close(0); os.close(1)", BrokerExit(0, "")),
    ],
)
async def test_exit_of_a_broker_and_its_reason(script: str, exited: BrokerExit) -> None:
    broker = Broker(script, secret="x" * 1_000_000)  # more than a pipe holds
    assert await broker.exit() == exited
    assert broker.facts == []


async def test_settings_are_given_on_standard_input_only() -> None:
    script = (
        "import os, pathlib, sys; given, secret = sys.stdin.buffer.read(), b'hsuh'[::-1]\n"
        "seen = [pathlib.Path('/proc/self', name).read_bytes() for name in ('cmdline', 'environ')]\n"
        "assert secret in given and not any(secret in each for each in seen)\n"
        "assert str(os.getppid()) == sys.argv[-1]"
    )
    assert await Broker(script, secret="redis://:hush@here").exit() == BrokerExit(0, "")


async def test_a_serving_broker_reports_its_addresses_and_ends_at_a_signal() -> None:
    broker = Broker(SERVE)
    running = asyncio.create_task(broker.exit())
    await asyncio.wait_for(broker.serving.wait(), PATIENCE)
    assert broker.facts == [{"kafka": "h:1"}]
    broker.process.signal(signal.SIGTERM)
    assert await running == BrokerExit(-signal.SIGTERM, "")
    broker.process.signal(signal.SIGTERM)  # it is gone


async def test_a_signal_before_the_process_exists_is_sent_when_it_does() -> None:
    broker = Broker(SERVE)
    broker.process.signal(signal.SIGTERM)
    assert await broker.exit() == BrokerExit(-signal.SIGTERM, "")


async def test_a_program_that_cannot_be_started_counts_as_an_exit() -> None:
    broker = Broker("")
    broker.process._command = ("/no/such/program",)
    assert await broker.exit() == BrokerExit(1, "The process cannot be started: No such file or directory.")


async def test_a_broker_whose_supervision_is_cancelled_is_killed() -> None:
    broker = Broker(SERVE)
    running = asyncio.create_task(broker.process.run())
    await asyncio.wait_for(broker.serving.wait(), PATIENCE)
    process = broker.process._process
    assert process is not None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL
