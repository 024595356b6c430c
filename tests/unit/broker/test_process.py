"""The identity, the stores and the exception handler of a broker process."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
import uvloop

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.process import node_identity, open_storage, report
from sharebroker_server.broker.redis import RedisConnections
from sharebroker_server.broker.settings import ServeSettings, parse_config
from sharebroker_server.record_log.metered import MeteredRecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.server import Target
from sharebroker_server.stream_log.metered import MeteredStreamLog
from sharebroker_server.telemetry.process import Appends
from tests.testkit.servers import running
from tests.testkit.waiting import eventually


def test_failed_host_lookups_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    told: list[dict[str, Any]] = []

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        told.append(context)
        report(loop, context)

    async def giving_up() -> None:
        asyncio.get_running_loop().set_exception_handler(handler)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await Target.parse("redis://no!name").open(asyncio.Protocol)
        await eventually(lambda: told)

    uvloop.run(giving_up())
    assert [context["message"] for context in told] == ["Future exception was never retrieved"]
    assert not caplog.records


def test_other_exceptions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> None:
        report(asyncio.get_running_loop(), {"message": "lost", "exception": OSError("away")})

    asyncio.run(failing())
    assert [record.message for record in caplog.records] == ["lost"]


def test_node_id_overrides_the_address() -> None:
    settings = ServeSettings(redis="redis://r", config=parse_config(["node.id=7"]))
    assert node_identity(settings, "here:1").node_id == 7


def test_brokers_at_one_address_have_one_node_id() -> None:
    settings = ServeSettings(redis="redis://r", config=parse_config(()))
    assert node_identity(settings, "here:1").node_id == node_identity(settings, "here:1").node_id
    assert node_identity(settings, "here:1").node_id != node_identity(settings, "here:2").node_id


def test_the_data_folder_keeps_the_identity(tmp_path: Path) -> None:
    settings = ServeSettings(data=tmp_path, config=parse_config(()))
    first, second = node_identity(settings, "here:1"), node_identity(settings, "here:2")
    assert first.node_id == second.node_id
    assert first.incarnation < second.incarnation
    (tmp_path / "node.json").write_text("nonsense")
    with pytest.raises(KafkaError, match="holds no node identity"):
        node_identity(settings, "here:1")


async def test_stores_are_metered_only_if_metrics_are_read() -> None:
    with running("valkey") as server:
        link = await connect(f"redis://127.0.0.1:{server.port}")
        redis = RedisConnections(link, link)
        plain, metered = open_storage(redis, Keys(), None), open_storage(redis, Keys(), Appends())
        assert not isinstance(plain.log, MeteredStreamLog)
        assert isinstance(metered.log, MeteredStreamLog)
        assert isinstance(metered.records, MeteredRecordStore)
        await link.close()
