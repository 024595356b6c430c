"""The stores of a broker."""

from __future__ import annotations

from sharebroker_server.broker.redis_connections import RedisConnections
from sharebroker_server.broker.storage import open_storage
from sharebroker_server.record_log.metered import MeteredRecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import connect
from sharebroker_server.stream_log.metered import MeteredStreamLog
from sharebroker_server.telemetry.process import Appends
from tests.testkit.servers import running


async def test_stores_are_metered_only_if_metrics_are_read() -> None:
    with running("valkey") as server:
        link = await connect(f"redis://127.0.0.1:{server.port}")
        redis = RedisConnections(link, link)
        plain, metered = open_storage(redis, Keys(), None), open_storage(redis, Keys(), Appends())
        assert not isinstance(plain.log, MeteredStreamLog)
        assert isinstance(metered.log, MeteredStreamLog)
        assert isinstance(metered.records, MeteredRecordStore)
        await link.close()
