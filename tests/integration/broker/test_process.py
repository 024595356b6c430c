"""A broker process from its start to its end."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from sharebroker_protocol.cancellation import end
from sharebroker_server.broker import redis
from sharebroker_server.broker.defaults import CLOSED
from sharebroker_server.broker.process import Process
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually


async def probe(question: str, url: str) -> subprocess.CompletedProcess[str]:
    """Runs `sharebroker probe` as a container's health check does."""
    main = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
    command = [*main, "probe", question, "--url", url]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def test_starting_process_is_live_and_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "CONNECT_TIMEOUT", 3600.0)
    watching = f"127.0.0.1:{free_port()}"
    settings = ServeSettings(
        redis=f"redis://127.0.0.1:{free_port()}",
        grpc="127.0.0.1:0",
        kafka=CLOSED,
        metrics=watching,
        config=BrokerConfig.parse(()),
    )
    starting = asyncio.create_task(Process(settings).start())

    async def live() -> bool:
        return not starting.done() and (await probe("live", f"http://{watching}")).returncode == 0

    try:
        await eventually(live, 60)
        for question in ("started", "ready"):
            probed = await probe(question, f"http://{watching}")
            assert probed.returncode == 1
            assert probed.stderr == f"sharebroker probe: not {question}: the broker is starting\n"
    finally:
        await end([starting])
