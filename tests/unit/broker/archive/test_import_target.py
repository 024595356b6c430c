"""The cluster into which an import writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from unittest.mock import AsyncMock, Mock

import pytest

from sharebroker_server.broker.archive.import_target import ImportTarget, open_target
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_plan import ImportPlan, plan_import
from sharebroker_server.broker.core.archive_topics import Choices, PlannedTopics, TargetCluster
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.keys import Keys
from tests.testkit.shared_servers import Servers
from tests.unit.broker.archive.scene import RECORDS, at

pytestmark = pytest.mark.servers

TEN = 10.0


@pytest.fixture
async def target(redis_servers: Servers) -> AsyncIterator[ImportTarget]:
    async with AsyncExitStack() as stack:
        opened = await open_target(at(redis_servers.fresh("valkey")), stack)
        await opened.take_over(stack)
        yield opened


def planned(target: ImportTarget) -> ImportPlan:
    place = TargetCluster(target.view.catalog, at("redis://unused").config, 1.0)
    return plan_import("archive", RECORDS, Choices(), place, target.groups)


async def test_the_catalog_is_written_last(target: ImportTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    shards: list[str] = []
    append = target.stores.log.append

    async def noting(shard: str, *rest: object) -> None:
        shards.append(shard.partition(":")[0])
        await append(shard, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(target.stores.log, "append", noting)
    await target.write(planned(target))
    assert list(dict.fromkeys(shards)) == ["share-coordinator", "group-coordinator", "catalog"]
    assert shards.count("catalog") == 1, "all topics appear in one step"


async def test_a_plan_without_records_writes_nothing(target: ImportTarget) -> None:
    await target.write(ImportPlan(PlannedTopics()))
    assert await target.stores.log.last_position("catalog") == 0


async def test_records_that_do_not_fit_into_memory_are_rejected(target: ImportTarget) -> None:
    link = target.stores.link
    await target.check_memory(1 << 20)
    await link.call("CONFIG", "SET", "maxmemory", str(64 << 20), timeout=TEN)
    try:
        await target.check_memory(10 << 20)
        with pytest.raises(
            ArchiveError, match=r"no room for 60,000,000 bytes of records: it uses .* of 67,108"
        ):
            await target.check_memory(60_000_000)
    finally:
        await link.call("CONFIG", "SET", "maxmemory", "0", timeout=TEN)


@pytest.mark.parametrize(
    ("role", "key"),
    [
        ("group-coordinator", r"offsets\.topic\.num"),
        ("share-coordinator", r"share\.coordinator\.state\.topic\.num"),
    ],
)
@pytest.mark.parametrize("served", [1, 2, 4])
async def test_another_number_of_shards_is_rejected_before_a_claim(role: str, key: str, served: int) -> None:
    leases = AsyncMock(RedisLeaseStore)
    stored = {Keys().lease(f"{role}:{index}") for index in range(served)}
    link = AsyncMock()
    link.call.side_effect = lambda _command, lease, **_: int(lease in stored)
    stores = Mock(Stores, link=link, keys=Keys(), leases=leases)
    async with AsyncExitStack() as stack:
        with pytest.raises(ArchiveError, match=f"not have 3 shards: pass its {key}"):
            await ImportTarget(stores, at("redis://unused")).open(stack)
    assert not leases.claim_from.called
