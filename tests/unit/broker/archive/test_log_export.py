"""The export of one log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from sharebroker_server.broker.archive import log_export
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.log_export import LogExport, log_length
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import ArchiveError, ExportJournal, Head
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.port import Bounds
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.keys import Keys
from tests.testkit.shared_servers import Servers
from tests.unit.broker.archive.scene import opened
from tests.unit.broker.core.archives import ORDERS
from tests.unit.record_log.batches import stored

pytestmark = pytest.mark.servers

TOPIC = ORDERS.topic_id
RESOURCE = f"partition:{TOPIC}:0"


@pytest.fixture
async def stores(redis_servers: Servers) -> AsyncIterator[Stores]:
    async with opened(redis_servers.fresh("valkey")) as stores:
        yield stores


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArchiveFolder:
    """A folder whose files have one batch each."""
    monkeypatch.setattr(log_export, "FILE_BYTES", 1)
    monkeypatch.setattr(log_export, "READ_BYTES", 1)
    folder = ArchiveFolder(tmp_path / "archive")
    assert folder.journal() is None
    folder.begin(Head("a", "0.1.0", 1.0, [], [], 1, 0, folder.write_metadata(b"")))
    return folder


def export(stores: Stores, folder: ArchiveFolder, steps: list[int] | None = None) -> LogExport:
    journal = folder.journal()
    assert isinstance(journal, ExportJournal)
    return LogExport(stores, folder, journal, (steps if steps is not None else list[int]()).append)


async def append(stores: Stores, *batches: StoredBatch) -> int:
    epoch = (await stores.leases.claim(RESOURCE, "1/1", 60.0)).epoch
    await stores.records.append(RESOURCE, epoch, batches)
    return epoch


async def test_records_after_the_end_of_the_moment_are_left_out(
    stores: Stores, folder: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(stores, stored(0), stored(3))
    view = stores.records.view

    async def then_another(partition: str) -> object:
        seen = await view(partition)
        await append(stores, stored(6))
        return seen

    monkeypatch.setattr(stores.records, "view", then_another)
    steps: list[int] = []
    exported = await export(stores, folder, steps).run(TOPIC, 0)
    assert [file.end_offset for file in exported.files] == [3, 6]
    assert (exported.log_end_offset, exported.records, sum(steps)) == (6, 6, 6)


async def test_a_repeated_export_has_newer_records(stores: Stores, folder: ArchiveFolder) -> None:
    await append(stores, stored(0))
    file = folder.write_records(TOPIC, 0, [stored(0)])
    folder.add(file)
    await append(stores, stored(3))
    exported = await export(stores, folder).run(TOPIC, 0)
    assert [each.first_offset for each in exported.files] == [0, 3]
    await append(stores, stored(6))
    assert await export(stores, folder).run(TOPIC, 0) == exported, "a complete log is not read again"
    (folder.path / file.name).unlink()
    again = await export(stores, folder).run(TOPIC, 0)
    assert [each.first_offset for each in again.files] == [0, 3, 6]


async def test_deleted_records_are_left_out(stores: Stores, folder: ArchiveFolder) -> None:
    epoch = await append(stores, stored(0), stored(3), stored(6))
    folder.add(folder.write_records(TOPIC, 0, [stored(0)]))
    await stores.records.trim(RESOURCE, epoch, 7)
    assert await log_length(stores, TOPIC, 0) == 2
    exported = await export(stores, folder).run(TOPIC, 0)
    assert (exported.log_start_offset, exported.leader_epoch) == (7, epoch)
    assert [each.first_offset for each in exported.files] == [0, 6]


async def test_a_log_without_records_keeps_its_end(stores: Stores, folder: ArchiveFolder) -> None:
    epoch = await append(stores, stored(0))
    await stores.records.trim(RESOURCE, epoch, 3)
    exported = await export(stores, folder).run(TOPIC, 0)
    assert (exported.log_start_offset, exported.log_end_offset, exported.files) == (3, 3, [])
    unused = await export(stores, folder).run(TOPIC, 1)
    assert (unused.leader_epoch, unused.log_end_offset) == (0, 0)


async def test_a_log_that_lost_records_is_rejected(stores: Stores, folder: ArchiveFolder) -> None:
    folder.add(folder.write_records(TOPIC, 0, [stored(0)]))
    with pytest.raises(ArchiveError, match="ends at 0, before the archived records"):
        await export(stores, folder).run(TOPIC, 0)


async def test_records_deleted_during_the_export_leave_no_offset_free(
    folder: ArchiveFolder,
) -> None:
    records = AsyncMock(RedisRecordStore)
    records.view.return_value = (Bounds(0, 6), {})
    records.read.side_effect = [[stored(0)], [stored(6)]]
    stores = Mock(Stores, records=records, keys=Keys(), link=AsyncMock())
    stores.link.call.return_value = b"3"
    exported = await export(stores, folder).run(TOPIC, 0)
    assert (exported.log_start_offset, exported.log_end_offset, exported.files) == (6, 6, [])
