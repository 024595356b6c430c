from __future__ import annotations

import pytest

from sharebroker.aio import ShareConsumer, connect_warnings
from sharebroker.aio.connect_warnings import EVERY, PATIENCE, Trouble
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.testkit.servers import free_port
from sharebroker_server.testkit.waiting import eventually

AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody there")


def test_what_lasts_is_told_and_not_too_often(caplog: pytest.LogCaptureFixture) -> None:
    lasting = Trouble()
    for now in (0.0, 1.0, PATIENCE, PATIENCE + 1, PATIENCE + EVERY - 1, PATIENCE + EVERY):
        lasting.failed(AWAY, now)
    assert [record.message.count("nobody there") for record in caplog.records] == [1, 1]


def test_what_is_over_soon_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    short = Trouble()
    for start in (0.0, 10.0, 20.0):
        short.failed(AWAY, start)
        short.failed(AWAY, start + PATIENCE - 1)
        short.over()
    assert not caplog.records


async def test_a_consumer_tells_that_there_is_no_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_warnings, "PATIENCE", 0.0)
    address = f"127.0.0.1:{free_port()}"
    async with ShareConsumer(address, "g", ["jobs"]):
        await eventually(lambda: f"The server at {address} cannot be reached" in caplog.text, 60)
