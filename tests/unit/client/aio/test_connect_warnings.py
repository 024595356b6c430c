from __future__ import annotations

import pytest

from sharebroker.aio import ShareConsumer, connect_warnings
from sharebroker.aio.connect_warnings import WARN_AFTER, WARN_INTERVAL, ConnectWarnings
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.testkit.servers import free_port
from sharebroker_server.testkit.waiting import eventually

AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody there")


def test_what_lasts_is_told_and_not_too_often(caplog: pytest.LogCaptureFixture) -> None:
    lasting = ConnectWarnings()
    for now in (
        0.0,
        1.0,
        WARN_AFTER,
        WARN_AFTER + 1,
        WARN_AFTER + WARN_INTERVAL - 1,
        WARN_AFTER + WARN_INTERVAL,
    ):
        lasting.failed(AWAY, now)
    assert [record.message.count("nobody there") for record in caplog.records] == [1, 1]


def test_what_is_over_soon_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    short = ConnectWarnings()
    for start in (0.0, 10.0, 20.0):
        short.failed(AWAY, start)
        short.failed(AWAY, start + WARN_AFTER - 1)
        short.succeeded()
    assert not caplog.records


async def test_a_consumer_tells_that_there_is_no_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_warnings, "WARN_AFTER", 0.0)
    address = f"127.0.0.1:{free_port()}"
    async with ShareConsumer(address, "g", ["jobs"]):
        await eventually(lambda: f"The server at {address} cannot be reached" in caplog.text, 60)
