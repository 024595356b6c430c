"""The guarantees of every stream log: the log in memory, and Redis streams on each available server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.links import connect
from sharebroker_server.stream_log.port import Entry, LogFenced, LogNotWritten, LogOutOfOrder, StreamLog
from sharebroker_server.stream_log.redis import RedisStreamLog
from sharebroker_server.telemetry.metrics import AppendMetricsByLog
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.servers import kinds
from tests.testkit.shared_servers import CLUSTER, Servers

SHARD = "share-coordinator:7"


@dataclass
class Stores:
    """A log, and the leases that fence it."""

    leases: LeaseStore
    log: StreamLog
    appends: AppendMetricsByLog = field(default_factory=AppendMetricsByLog)

    async def owned(self, owner: str = "1/1", shard: str = SHARD) -> int:
        """Claims the shard and returns its epoch."""
        return (await self.leases.claim(shard, owner, 60.0, force=True)).epoch


@pytest.fixture(params=["memory", *kinds(), CLUSTER])
async def stores(request: pytest.FixtureRequest, redis_servers: Servers) -> AsyncIterator[Stores]:
    if request.param == "memory":
        leases = MemoryLeaseStore()
        yield Stores(leases, MemoryStreamLog(leases.epoch_of))
        return
    link = await connect(redis_servers.fresh(request.param))
    appends = AppendMetricsByLog()
    yield Stores(RedisLeaseStore(link), RedisStreamLog(link, appends=appends), appends)
    await link.close()


REDIS = pytest.mark.parametrize("stores", [*kinds(), CLUSTER], indirect=True)
"""For what the log in memory does not have."""


@REDIS
async def test_appends_are_counted_by_the_kind_of_their_shard(stores: Stores) -> None:
    other = "group-coordinator:0"
    await stores.log.append(SHARD, await stores.owned(), 1, [b"ab", b"c"])
    await stores.log.append(other, await stores.owned(shard=other), 1, [b"abcd"])
    counted = [stores.appends.of(kind) for kind in ("share-coordinator", "group-coordinator")]
    assert [(appended.records.sum, appended.bytes) for appended in counted] == [(2, 3), (1, 4)]


@REDIS
async def test_a_failed_append_is_counted_by_its_error(stores: Stores) -> None:
    with pytest.raises(LogOutOfOrder):
        await stores.log.append(SHARD, await stores.owned(), 2, [b"a"])
    counted = stores.appends.of("share-coordinator")
    assert (counted.bytes, counted.failures) == (0, {"LogOutOfOrder": 1})


async def test_appended_entries_are_read_in_order(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"a", b""])
    await stores.log.append(SHARD, epoch, 3, [b"\x00\xff\r\n"])
    assert await stores.log.read(SHARD, 0, 10) == [Entry(1, b"a"), Entry(2, b""), Entry(3, b"\x00\xff\r\n")]
    assert await stores.log.last_position(SHARD) == 3


async def test_an_unknown_shard_is_empty(stores: Stores) -> None:
    assert await stores.log.read("absent", 0, 10) == []
    assert await stores.log.last_position("absent") == 0


async def test_read_starts_after_a_position_and_stops_at_the_limit(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [bytes([i]) for i in range(10)])
    assert [entry.position for entry in await stores.log.read(SHARD, 3, 4)] == [4, 5, 6, 7]
    assert [entry.position for entry in await stores.log.read(SHARD, 8, 4)] == [9, 10]
    assert await stores.log.read(SHARD, 10, 4) == []


async def test_shards_are_independent(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"a"])
    assert await stores.log.read("share-coordinator:8", 0, 10) == []


async def test_append_without_a_lease_is_fenced(stores: Stores) -> None:
    with pytest.raises(LogFenced):
        await stores.log.append(SHARD, 1, 1, [b"a"])
    assert await stores.log.last_position(SHARD) == 0


async def test_former_owner_is_fenced(stores: Stores) -> None:
    earlier = await stores.owned()
    await stores.log.append(SHARD, earlier, 1, [b"a"])
    later = await stores.owned("1/2")
    with pytest.raises(LogFenced):
        await stores.log.append(SHARD, earlier, 2, [b"b"])
    with pytest.raises(LogFenced):
        await stores.log.trim(SHARD, earlier, 2)
    await stores.log.append(SHARD, later, 2, [b"c"])
    assert [entry.payload for entry in await stores.log.read(SHARD, 0, 10)] == [b"a", b"c"]


async def test_epoch_that_was_never_assigned_is_fenced(stores: Stores) -> None:
    epoch = await stores.owned()
    with pytest.raises(LogFenced):
        await stores.log.append(SHARD, epoch + 1, 1, [b"a"])


async def test_release_does_not_open_the_log_to_older_epochs(stores: Stores) -> None:
    earlier = await stores.owned()
    await stores.owned("1/2")
    await stores.leases.release(SHARD, "1/2")
    with pytest.raises(LogFenced):
        await stores.log.append(SHARD, earlier, 1, [b"a"])


@pytest.mark.parametrize("first", [1, 2, 4, 100])
async def test_out_of_order_append_is_rejected(stores: Stores, first: int) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"a", b"b"])
    with pytest.raises(LogOutOfOrder) as rejection:
        await stores.log.append(SHARD, epoch, first, [b"x", b"y", b"z"])
    assert isinstance(rejection.value, LogNotWritten)
    assert "ends at 2" in rejection.value.reason
    assert await stores.log.read(SHARD, 0, 10) == [Entry(1, b"a"), Entry(2, b"b")]


async def test_trimming_keeps_positions(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"a", b"b", b"c"])
    await stores.log.trim(SHARD, epoch, 3)
    assert await stores.log.read(SHARD, 0, 10) == [Entry(3, b"c")]
    await stores.log.trim(SHARD, epoch, 2)  # already deleted: harmless
    await stores.log.append(SHARD, epoch, 4, [b"d"])
    assert [entry.position for entry in await stores.log.read(SHARD, 0, 10)] == [3, 4]


async def test_completely_trimmed_log_keeps_its_end(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"a", b"b", b"c"])
    await stores.log.trim(SHARD, epoch, 4)
    assert await stores.log.read(SHARD, 0, 10) == []
    assert await stores.log.last_position(SHARD) == 3
    with pytest.raises(LogOutOfOrder):
        await stores.log.append(SHARD, epoch, 1, [b"x"])
    await stores.log.append(SHARD, epoch, 4, [b"d"])
    assert await stores.log.read(SHARD, 0, 10) == [Entry(4, b"d")]


async def test_trim_of_an_unknown_shard_is_harmless(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.trim(SHARD, epoch, 5)
    assert await stores.log.last_position(SHARD) == 0


async def test_a_deleted_log_starts_again_at_one(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"a"])
    await stores.log.delete(SHARD)
    await stores.log.delete(SHARD)
    assert await stores.log.last_position(SHARD) == 0
    await stores.log.append(SHARD, epoch, 1, [b"b"])
    assert await stores.log.read(SHARD, 0, 10) == [Entry(1, b"b")]


async def test_empty_append_checks_the_lease_and_the_end(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [])
    with pytest.raises(LogOutOfOrder):
        await stores.log.append(SHARD, epoch, 2, [])
    with pytest.raises(LogFenced):
        await stores.log.append(SHARD, epoch - 1, 1, [])


async def test_large_appends_are_atomic(stores: Stores) -> None:
    epoch = await stores.owned()
    await stores.log.append(SHARD, epoch, 1, [b"x" * 100] * 20_000)
    assert await stores.log.last_position(SHARD) == 20_000
    assert len(await stores.log.read(SHARD, 0, 50_000)) == 20_000
