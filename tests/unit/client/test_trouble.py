from __future__ import annotations

import pytest

from libs.testkit.servers import free_port
from libs.testkit.waiting import eventually
from sharebroker.aio import ShareConsumer
from sharebroker.aio.trouble import EVERY, PATIENCE, Trouble
from sharebroker.errors import ErrorCode, KafkaError

AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody there")


def test_what_lasts_is_told_and_not_too_often(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble()
    for now in (0.0, 1.0, PATIENCE, PATIENCE + 1, PATIENCE + EVERY - 1, PATIENCE + EVERY):
        trouble.goes_on(AWAY, now)
    assert [record.message.count("nobody there") for record in caplog.records] == [1, 1]


def test_what_is_over_soon_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble()
    for start in (0.0, 10.0, 20.0):
        trouble.goes_on(AWAY, start)
        trouble.goes_on(AWAY, start + PATIENCE - 1)
        trouble.over()
    assert not caplog.records


async def test_a_consumer_tells_that_there_is_no_server(caplog: pytest.LogCaptureFixture) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with ShareConsumer(address, "g", ["jobs"]):
        await eventually(lambda: _told(caplog, f"The server at {address} cannot be reached"), 60)


async def _told(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text
