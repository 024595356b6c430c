from __future__ import annotations

import pytest

from sharebroker.aio import ShareConsumer, connect_warnings
from sharebroker.aio.connect_warnings import WARN_AFTER, WARN_INTERVAL, ConnectWarnings
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually

AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "connection refused")


def test_lasting_failure_is_logged_at_limited_rate(caplog: pytest.LogCaptureFixture) -> None:
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
    assert [record.message.count("connection refused") for record in caplog.records] == [1, 1]


def test_short_failure_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    short = ConnectWarnings()
    for start in (0.0, 10.0, 20.0):
        short.failed(AWAY, start)
        short.failed(AWAY, start + WARN_AFTER - 1)
        short.succeeded()
    assert not caplog.records


async def test_consumer_logs_unreachable_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_warnings, "WARN_AFTER", 0.0)
    address = f"127.0.0.1:{free_port()}"
    async with ShareConsumer(address, "g", ["jobs"]):
        await eventually(lambda: f"The server at {address} cannot be reached" in caplog.text, 60)
