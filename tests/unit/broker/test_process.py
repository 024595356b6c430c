"""The stores and the exception handler of a broker process."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
import uvloop
from structlog.testing import capture_logs

from sharebroker_server.broker import process
from sharebroker_server.broker.process import open_storage, report
from sharebroker_server.broker.redis import RedisConnections
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.catalog.machine import CatalogMachine
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.kafka_client.settings import upstream_settings
from sharebroker_server.leases.names import partition
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.server import Target
from sharebroker_server.telemetry.metrics import AppendMetricsByLog
from tests.testkit.servers import running
from tests.testkit.waiting import eventually
from tests.unit.kafka_client.harness import Broker, serving, silent
from tests.unit.record_log.batches import stored


def test_failed_host_lookups_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    contexts: list[dict[str, Any]] = []

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        contexts.append(context)
        report(loop, context)

    async def giving_up() -> None:
        asyncio.get_running_loop().set_exception_handler(handler)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await Target.parse("redis://no!name").open(asyncio.Protocol)
        await eventually(lambda: contexts)

    uvloop.run(giving_up())
    assert [context["message"] for context in contexts] == ["Future exception was never retrieved"]
    assert not caplog.records


def test_other_exceptions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> None:
        report(asyncio.get_running_loop(), {"message": "lost", "exception": OSError("away")})

    asyncio.run(failing())
    assert [record.message for record in caplog.records] == ["lost"]


async def test_stores_share_one_measurement_of_appends() -> None:
    appends = AppendMetricsByLog()
    with running("valkey") as server:
        link = await connect(f"redis://127.0.0.1:{server.port}")
        storage = open_storage(RedisConnections(link, link), Keys(), appends)
        for resource in (partition("t", 0), "share-coordinator:7"):
            await storage.leases.claim(resource, "1/1", 60.0)
        await storage.records.append(partition("t", 0), 1, [stored(0)])
        await storage.log.append("share-coordinator:7", 1, 1, [b"a"])
        await link.close()
    assert [appends.of(kind).records.sum for kind in ("partition", "share-coordinator")] == [1, 1]


async def test_a_silent_cluster_of_records_delays_the_start_for_a_bounded_time() -> None:
    async with serving(Broker(respond=silent)) as broker, AsyncExitStack() as stack:
        upstream = upstream_settings(None, f"127.0.0.1:{broker.port}")
        settings = cast("ServeSettings", SimpleNamespace(upstream=upstream))
        catalog = cast("MetadataCache", SimpleNamespace(catalog=CatalogMachine(BrokerConfig()).catalog))
        with patch.object(process, "UPSTREAM_TIMEOUT", 0.1), capture_logs() as lines:
            async with asyncio.timeout(upstream.connection.setup_timeout / 2):
                assert await process._upstream(settings, catalog, stack) is not None
        assert [line["reason"] for line in lines] == ["no response in 0.1 s"]
