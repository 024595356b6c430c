"""The import of one log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from sharebroker_server.broker.archive.claimed_leases import ClaimedLeases
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.log_import import WRITE_BATCHES, LogImport, LogWriter, missing_bytes
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import ArchivedPartition, ArchiveError
from sharebroker_server.broker.core.archive_plan import ImportPlan
from sharebroker_server.broker.core.archive_topics import PlannedTopics
from sharebroker_server.leases.port import Lease
from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.log_state import Segment
from sharebroker_server.record_log.core.producers import ProducerState
from sharebroker_server.record_log.core.snapshots import load_snapshots, snapshots_of
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.record_log.port import Bounds
from sharebroker_server.record_log.redis import RedisRecordStore
from tests.testkit.shared_servers import Servers
from tests.unit.broker.archive.scene import opened
from tests.unit.broker.core.archives import ORDERS
from tests.unit.record_log.batches import stored

pytestmark = pytest.mark.servers

TOPIC = ORDERS.topic_id
RESOURCE = f"partition:{TOPIC}:0"
LARGE = [stored(10 * number, 10, 30_000, time=number) for number in range(12)]
"""Batches of which four fill a segment."""


@pytest.fixture
async def stores(redis_servers: Servers) -> AsyncIterator[Stores]:
    async with opened(redis_servers.fresh("valkey")) as stores:
        yield stores


async def owned(stores: Stores) -> int:
    return (await stores.leases.claim(RESOURCE, "1/1", 60.0)).epoch


async def written(stores: Stores, batches: Sequence[StoredBatch], snapshots: Mapping[str, bytes]) -> None:
    writer = LogWriter(stores, RESOURCE, await owned(stores))
    await writer.start()
    for batch in batches:
        await writer.write(batch)
    await writer.finish(snapshots)


@pytest.mark.parametrize("done", range(0, 13, 3))
async def test_an_interruption_does_not_change_the_index(stores: Stores, done: int) -> None:
    await written(stores, LARGE[:done], {})
    await written(stores, LARGE, {"n1": b"x"})
    assert await stores.records.read(RESOURCE, 0, 10**9) == LARGE
    size = sum(len(batch.data) for batch in LARGE[:4])
    assert await stores.records.segments(RESOURCE) == [
        Segment(0, 40, size, 12), Segment(40, 80, size, 16), Segment(80, 120, size, 20),
    ]  # fmt: skip
    assert await stores.records.snapshots(RESOURCE) == {"n1": b"x"}


async def test_batches_of_an_earlier_import_need_no_memory(stores: Stores, tmp_path: Path) -> None:
    folder = ArchiveFolder(tmp_path / "archive")
    assert folder.journal() is None
    files = [folder.write_records(TOPIC, 0, [batch]) for batch in LARGE[:3]]
    partition = ArchivedPartition(TOPIC, 0, 1, 0, 30, {}, files)
    plan = ImportPlan(PlannedTopics({TOPIC: ORDERS}))
    assert await missing_bytes(stores, plan, [partition]) == partition.raw_size
    await written(stores, LARGE[:2], {})
    assert await missing_bytes(stores, plan, [partition]) == files[2].raw_size


async def test_many_small_batches_are_written_in_portions(stores: Stores) -> None:
    batches = [stored(number, 1) for number in range(WRITE_BATCHES + 1)]
    await written(stores, batches, {})
    assert await stores.records.bounds(RESOURCE) == Bounds(0, WRITE_BATCHES + 1)


async def test_an_open_transaction_is_aborted_once(stores: Stores, tmp_path: Path) -> None:
    folder = ArchiveFolder(tmp_path / "archive")
    assert folder.journal() is None
    notes = snapshots_of(Transactions({5: ProducerState(2, transaction_start=1)}))
    file = folder.write_records(TOPIC, 0, [stored(0), stored(3)])
    archived = ArchivedPartition(TOPIC, 0, 1, 2, 6, notes, [file])
    steps: list[int] = []
    leases = ClaimedLeases(stores.leases, 60.0)
    await leases.claim({RESOURCE: 1})
    plan = ImportPlan(PlannedTopics({TOPIC: ORDERS}))
    for _ in range(2):
        await LogImport(stores, leases, folder, "archive", plan, steps.append).run(archived)
    assert await stores.records.bounds(RESOURCE) == Bounds(2, 7)
    *_, marker = await stores.records.read(RESOURCE, 0, 10**9)
    assert (marker.control, header_of(marker.data).producer_id) == (True, 5)
    found = load_snapshots(await stores.records.snapshots(RESOURCE))
    assert not found.producers
    assert [each.last_offset for each in found.aborted] == [6]
    assert steps == [6, 6]


async def test_trimmed_rows_of_the_index_are_not_written_again() -> None:
    records = AsyncMock(RedisRecordStore)
    records.bounds.return_value, records.segments.return_value = Bounds(40, 60), []
    writer = LogWriter(Mock(Stores, records=records), RESOURCE, 1)
    await writer.start()
    for batch in LARGE[:6]:
        await writer.write(batch)
    await writer.finish({})
    assert not records.append.called


@pytest.mark.parametrize("notes", [{"a5": b"\x63"}, {"a5": b""}, {"a5": b"\0"}, {"rX": b"\0"}])
async def test_invalid_notes_are_rejected_before_anything_is_written(notes: Mapping[str, bytes]) -> None:
    stores = Mock(Stores, records=AsyncMock(RedisRecordStore), leases=AsyncMock())
    leases = ClaimedLeases(stores.leases, 60.0)
    stores.leases.claim_from.side_effect = lambda resource, owner, ttl, epoch: Lease(
        resource, owner, epoch, ttl
    )
    await leases.claim({RESOURCE: 1})
    plan = ImportPlan(PlannedTopics({TOPIC: ORDERS}))
    log = LogImport(stores, leases, ArchiveFolder(Path()), "archive", plan, lambda _step: None)
    with pytest.raises(ArchiveError, match=f"invalid notes of partition 0 of topic {TOPIC}"):
        await log.run(ArchivedPartition(TOPIC, 0, 1, 0, 6, notes))
    assert not stores.records.mock_calls
