"""The stores of a broker."""

from __future__ import annotations

from sharebroker_server.broker.redis_connections import RedisConnections
from sharebroker_server.broker.storage import open_storage
from sharebroker_server.leases.names import partition
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import connect
from sharebroker_server.telemetry.process import Appends
from tests.testkit.servers import running
from tests.unit.record_log.batches import stored


async def test_stores_share_one_measurement_of_appends() -> None:
    appends = Appends()
    with running("valkey") as server:
        link = await connect(f"redis://127.0.0.1:{server.port}")
        storage = open_storage(RedisConnections(link, link), Keys(), appends)
        for resource in (partition("t", 0), "share-coordinator:7"):
            await storage.leases.claim(resource, "1/1", 60.0)
        await storage.records.append(partition("t", 0), 1, [stored(0)])
        await storage.log.append("share-coordinator:7", 1, 1, [b"a"])
        await link.close()
    assert [appends.of(kind).records.sum for kind in ("partition", "share-coordinator")] == [1, 1]
