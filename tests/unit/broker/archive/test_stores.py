"""The stores of a cluster that a command opens."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.archive.stores import open_to_read, open_to_write
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.redis_link.port import FormatUnsupported
from tests.testkit.shared_servers import Servers

pytestmark = pytest.mark.servers

TEN = 10.0


def in_folder(data: Path) -> ServeSettings:
    return ServeSettings(data=data, config=BrokerConfig.parse(()))


async def test_the_embedded_valkey_is_started_or_shared(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pytest.raises(ArchiveError, match="has no data of an embedded Valkey"):
        await open_to_read(in_folder(data), AsyncExitStack())
    async with AsyncExitStack() as stack:
        stores = await open_to_write(in_folder(data), stack)
        await stores.link.call("SET", "x", "1", timeout=TEN)
        async with AsyncExitStack() as beside:
            shared = await open_to_read(in_folder(data), beside)
            assert await shared.link.call("GET", "x", timeout=TEN) == b"1"
            written = await open_to_write(in_folder(data), beside)
            await written.link.call("SET", "x", "2", timeout=TEN)
            with pytest.raises(KafkaError, match="--max-memory has no effect: a server runs"):
                await open_to_write(replace(in_folder(data), max_memory=1 << 30), beside)
    (data / "valkey" / "redis.sock").touch()  # as a killed server leaves it
    async with AsyncExitStack() as stack:
        stores = await open_to_read(in_folder(data), stack)
        assert await stores.link.call("GET", "x", timeout=TEN) == b"2"


async def test_data_of_a_later_format_is_rejected(redis_servers: Servers) -> None:
    settings = ServeSettings(redis=redis_servers.fresh("valkey"), config=BrokerConfig.parse(()))
    async with AsyncExitStack() as stack:
        stores = await open_to_write(settings, stack)
        await stores.link.call("HSET", stores.keys.format_version(), "version", "99", timeout=TEN)
        with pytest.raises(FormatUnsupported, match="has format version 99"):
            await open_to_read(settings, stack)
