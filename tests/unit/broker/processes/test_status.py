"""What a supervisor reports about its brokers."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.core.supervision import CommandEnd, Supervision
from sharebroker_server.broker.identity import PeerListener
from sharebroker_server.broker.processes.shared import Shared
from sharebroker_server.broker.processes.status import SupervisorStatus
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig

SHARED = Shared("here:1", 1, [], PeerListener("127.0.0.1", "127.0.0.1"))


def settings_of(ready_file: Path, grpc: str = "127.0.0.1:0") -> ServeSettings:
    return ServeSettings(processes=2, ready_file=ready_file, grpc=grpc, config=BrokerConfig.parse(()))


async def test_health_follows_the_brokers(tmp_path: Path) -> None:
    supervision = Supervision(2)
    supervision.begin()
    status = SupervisorStatus(settings_of(tmp_path / "ready.json"), supervision)
    health = status.observability.health
    async with AsyncExitStack() as stack:
        await status.start(stack)
        assert await health.is_started() == await health.is_ready() == "the brokers are starting"
        for index in (0, 1):
            supervision.on_serving(index, 0.0)
        status.serving(SHARED, ["h:1", "h:2"])
        assert await health.is_started() == await health.is_ready() == ""
        supervision.on_exit(1, 1, "", 1.0)
        assert await health.is_ready() == ""  # for a while, since broker 0 serves
        assert [missing for each in health.missing for missing in each()] == ["broker 1"]
        status.stopping(CommandEnd(0))
        assert await health.is_ready() == "the broker is stopping"


async def test_ready_file_and_log_name_all_addresses(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    status = SupervisorStatus(settings_of(ready, grpc="0.0.0.0:0"), Supervision(2))
    with capture_logs() as lines:
        status.serving(SHARED, ["h:1", "h:2"])
    facts = json.loads(ready.read_bytes())
    assert (facts["grpc"], facts["port"], facts["kafka"], facts["processes"]) == ("here:1", 1, "h:1,h:2", 2)
    assert lines[0]["event"] == "all brokers serve"
    assert [line["event"] for line in lines[1:]] == ["clients are not authenticated"]
    status.stopping(CommandEnd(0))
    assert not ready.exists()


async def test_a_ready_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    status = SupervisorStatus(settings_of(tmp_path / "missing" / "ready.json"), Supervision(2))
    async with AsyncExitStack() as stack:
        with pytest.raises(KafkaError, match="cannot be written"):
            await status.start(stack)


@pytest.mark.parametrize(
    ("end", "events"),
    [
        (CommandEnd(0), ["stopping"]),
        (CommandEnd(1, "Broker 0 failed 8 times"), ["broker failed repeatedly; stopping"]),
        (CommandEnd(2, "A port is taken."), []),  # the command prints the sentence
    ],
)
def test_the_end_is_logged_once(tmp_path: Path, end: CommandEnd, events: list[str]) -> None:
    status = SupervisorStatus(settings_of(tmp_path / "ready.json"), Supervision(2))
    with capture_logs() as lines:
        status.stopping(end)
    assert [line["event"] for line in lines] == events
