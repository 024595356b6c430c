"""The replay of coordinators' logs by a command."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_server.broker.archive.codec import SHARE_STATE
from sharebroker_server.broker.archive.stored_state import read_catalog, read_groups, read_share_state
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.catalog.records import CatalogCodec, ClusterRecord
from sharebroker_server.stream_log.port import Entry
from tests.testkit.shared_servers import Servers
from tests.unit.broker.archive.scene import at, opened
from tests.unit.broker.core.archives import state

pytestmark = pytest.mark.servers

CONFIG = at("redis://unused").config
SHARD = "share-coordinator:1"


@pytest.fixture
async def stores(redis_servers: Servers) -> AsyncIterator[Stores]:
    async with opened(redis_servers.fresh("valkey")) as stores:
        yield stores


async def append(stores: Stores, *payloads: bytes) -> None:
    lease = await stores.leases.claim(SHARD, "1/1", 60.0)
    await stores.log.append(SHARD, lease.epoch, await stores.log.last_position(SHARD) + 1, payloads)


async def keys(stores: Stores) -> list[str]:
    return [
        str(each.key) for shard in await read_share_state(stores, CONFIG) for each in shard.checkpoints(1.0)
    ]


async def test_the_latest_states_are_read(stores: Stores) -> None:
    assert await keys(stores) == []
    await append(stores, *(SHARE_STATE.encode(state(f"g{number % 3}")) for number in range(2500)))
    assert [key.partition(":")[0] for key in await keys(stores)] == ["g0", "g1", "g2"] or len(
        await keys(stores)
    ) == 3
    view = await read_catalog(stores, CONFIG)
    assert [len(shard.shares.groups) for shard in await read_groups(stores, view)] == [0, 0, 0]


async def test_a_log_trimmed_between_two_reads_is_read_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(stores, *(SHARE_STATE.encode(state(f"g{number}")) for number in range(1500)))
    read = stores.log.read
    trims = iter([1200])

    async def trimming(shard: str, after: int, limit: int) -> list[Entry]:
        if after and (before := next(trims, None)):
            lease = await stores.leases.claim(SHARD, "1/1", 60.0)
            await stores.log.trim(SHARD, lease.epoch, before)
        return await read(shard, after, limit)

    monkeypatch.setattr(stores.log, "read", trimming)
    assert len(await keys(stores)) == 301


async def test_a_damaged_log_is_reported(stores: Stores) -> None:
    await append(stores, SHARE_STATE.encode(state()), b"\xff")
    with pytest.raises(
        ArchiveError, match="share-coordinator:1: the entry at position 2 of its log is not a"
    ):
        await keys(stores)


@pytest.mark.parametrize("served", [1, 2, 5])
async def test_another_number_of_shards_is_rejected(stores: Stores, served: int) -> None:
    for index in range(served):
        await stores.leases.claim(f"share-coordinator:{index}", "1/1", 60.0)
    with pytest.raises(
        ArchiveError, match=r"not have 3 shards: pass its share\.coordinator\.state\.topic\.num"
    ):
        await keys(stores)


async def test_topics_of_another_cluster_are_rejected(stores: Stores) -> None:
    lease = await stores.leases.claim("catalog", "1/1", 60.0)
    record = ClusterRecord("c", {}, upstream_addresses="b1:9092")
    await stores.log.append("catalog", lease.epoch, 1, [CatalogCodec().encode(record)])
    with pytest.raises(ArchiveError, match="the Kafka cluster at b1:9092"):
        await read_catalog(stores, CONFIG)
