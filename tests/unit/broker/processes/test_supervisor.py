"""The supervisor with scripts instead of brokers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_server.broker.core.supervision import MOST_FAILURES, CommandEnd
from sharebroker_server.broker.processes.supervisor import Supervisor
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.telemetry.metrics import Family
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.servers  # each test starts processes

PATIENCE = 60.0
SERVE = 'print(\'{"kafka": "h:%d"}\' % start.index, flush=True); signal.pause()'
BEGIN = "import os, pathlib, pickle, signal, sys; start = pickle.load(sys.stdin.buffer)\n"


class Scene:
    """A supervisor of two scripts with a folder; `start` in a script is its description."""

    def __init__(self, folder: Path, script: str) -> None:
        self.ready = folder / "ready.json"
        settings = ServeSettings(
            redis="redis://127.0.0.1:1",
            grpc="127.0.0.1:0",
            processes=2,
            ready_file=self.ready,
            config=BrokerConfig.parse(()),
        )
        script = f"{BEGIN}folder = pathlib.Path({str(folder)!r})\n{script}"
        self.supervisor = Supervisor(settings, command=(sys.executable, "-c", script))

    @property
    def facts(self) -> dict[str, Any]:
        """The content of the ready file."""
        facts: dict[str, Any] = json.loads(self.ready.read_bytes())
        return facts

    def metrics(self) -> dict[str, list[float]]:
        """The values of each metric by broker."""
        families: list[Family] = list(self.supervisor._status.families())
        return {family.name: [sample.value for sample in family.samples] for family in families}

    async def end(self) -> CommandEnd:
        """Runs the supervisor to its end."""
        async with asyncio.timeout(PATIENCE):
            return await self.supervisor.run()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Waits until all brokers serve; at the end it terminates the supervisor, which must exit with 0."""
        running = asyncio.create_task(self.end())
        await eventually(lambda: self.ready.exists() or running.done(), PATIENCE)
        assert not running.done(), await running
        yield
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == CommandEnd(0)
        assert not self.ready.exists()


async def test_all_brokers_serve_until_a_signal(tmp_path: Path) -> None:
    scene = Scene(tmp_path, SERVE)
    with capture_logs() as lines:
        async with scene.serving():
            facts = scene.facts
            assert facts["grpc"] == f"127.0.0.1:{facts['port']}"
            assert (facts["kafka"], facts["processes"], facts["pid"]) == ("h:0,h:1", 2, os.getpid())
            assert await scene.supervisor._status.observability.health.is_ready() == ""
            assert scene.metrics()["sharebroker_broker_serving"] == [1, 1]
    assert [line["event"] for line in lines] == ["all brokers serve", "stopping"]


async def test_a_broker_that_exits_is_started_again(tmp_path: Path) -> None:
    script = (
        "mark = folder / f'{start.index}.mark'\n"
        "if start.index == 1 and not mark.exists(): mark.touch(); sys.exit(5)\n" + SERVE
    )
    scene = Scene(tmp_path, script)
    with capture_logs() as lines:
        async with scene.serving():
            assert scene.metrics() == {
                "sharebroker_broker_restarts_total": [0, 1],
                "sharebroker_broker_serving": [1, 1],
            }
    (line,) = [line for line in lines if line["event"] == "broker exited; restarting"]
    assert (line["broker"], line["exit_code"], line["log_level"]) == (1, 5, "error")


async def test_a_broker_that_cannot_start_ends_the_command(tmp_path: Path) -> None:
    script = 'if start.index == 1: print(\'{"error": "A port is taken."}\'); sys.exit(2)\n' + SERVE
    scene = Scene(tmp_path, script)
    with capture_logs() as lines:
        assert await scene.end() == CommandEnd(2, "A port is taken.")
    assert lines == []
    assert not scene.ready.exists()


async def test_a_broker_that_fails_repeatedly_ends_the_command(tmp_path: Path) -> None:
    script = "if start.index == 1: sys.exit(7)\n" + SERVE
    scene = Scene(tmp_path, script)
    scene.supervisor._supervision._brokers[1].failures = MOST_FAILURES - 1
    with capture_logs() as lines:
        assert await scene.end() == CommandEnd(1, "Broker 1 failed 8 times: exit code 7")
    assert [line["event"] for line in lines] == ["broker failed repeatedly; stopping"]


async def test_a_second_signal_kills_brokers_that_do_not_stop(tmp_path: Path) -> None:
    script = (
        "def ignore(*_): (folder / f'{start.index}.signalled').touch()\n"
        "signal.signal(signal.SIGTERM, ignore)\n"
        "print('{\"kafka\": null}', flush=True)\n"
        "while True: signal.pause()"
    )
    scene = Scene(tmp_path, script)
    with capture_logs() as lines:
        async with scene.serving():
            os.kill(os.getpid(), signal.SIGTERM)
            await eventually((tmp_path / "1.signalled").exists, PATIENCE)
            assert not scene.ready.exists()
    killed = [line["broker"] for line in lines if line["event"] == "broker still runs; killing it"]
    assert killed == [0, 1]
