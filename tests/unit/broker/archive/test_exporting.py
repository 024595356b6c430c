"""An export, and what interrupts or prevents it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.broker.archive import log_export
from sharebroker_server.broker.archive.exporting import export_archive
from sharebroker_server.broker.archive.folder import UNFINISHED, ArchiveFolder
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import Selection
from sharebroker_server.catalog.records import CatalogCodec, TopicDeletedRecord
from tests.testkit.shared_servers import Servers
from tests.unit.broker.archive.scene import (
    KilledError,
    Killer,
    at,
    content,
    exported,
    imported,
    make_archive,
    opened,
)
from tests.unit.broker.core.archives import ORDERS

pytestmark = pytest.mark.servers


@pytest.fixture
async def url(redis_servers: Servers, tmp_path: Path) -> str:
    """A cluster with the topics and groups of the archive `one`."""
    url = redis_servers.fresh("valkey")
    make_archive(tmp_path / "one")
    await imported(url, tmp_path / "one")
    return url


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_export, "FILE_BYTES", 300_000)
    monkeypatch.setattr(log_export, "READ_BYTES", 100_000)


@pytest.mark.usefixtures("small_files")
async def test_a_killed_export_continues_at_any_step(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = 0
    killed = True
    while killed:
        step += 3
        killer = Killer(step)
        with monkeypatch.context() as patch:
            for name in ("write_metadata", "begin", "write_records", "add", "finish"):
                patch.setattr(ArchiveFolder, name, killer.before(getattr(ArchiveFolder, name)))
            try:
                await export_archive(at(url), tmp_path / "two", Selection(), killer.begin)
            except KilledError:
                assert not (tmp_path / "two" / "manifest.json").exists()
        killed = killer.killed
    assert step > 9
    assert content(tmp_path / "two") == content(tmp_path / "one")
    assert not (tmp_path / "two" / UNFINISHED).exists()
    with pytest.raises(ArchiveError, match="contains a complete archive"):
        await exported(url, tmp_path / "two")


async def unfinished(url: str, target: Path) -> None:
    """Begins an export of the orders, and stops before its end."""
    with pytest.raises(KilledError):
        await export_archive(at(url), target, Selection(["orders"]), Killer(1).begin)


async def test_an_export_continues_with_the_same_topics_only(url: str, tmp_path: Path) -> None:
    await unfinished(url, tmp_path / "two")
    with pytest.raises(ArchiveError, match=r"The unfinished export in .*two has other topics or groups"):
        await exported(url, tmp_path / "two")
    await exported(url, tmp_path / "two", Selection(["orders"]))


async def test_a_topic_that_was_deleted_during_the_export_is_named(url: str, tmp_path: Path) -> None:
    await unfinished(url, tmp_path / "two")
    async with opened(url) as stores:
        lease = await stores.leases.claim("catalog", "1/1", 60.0)
        position = await stores.log.last_position("catalog") + 1
        deleted = CatalogCodec().encode(TopicDeletedRecord(ORDERS.topic_id))
        await stores.log.append("catalog", lease.epoch, position, [deleted])
    with pytest.raises(ArchiveError, match="orders was deleted during the export"):
        await exported(url, tmp_path / "two", Selection(["orders"]))


async def test_a_folder_with_other_files_is_rejected(url: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=f"{tmp_path} is not empty"):
        await exported(url, tmp_path)


async def test_a_pattern_without_a_match_is_rejected(url: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="The cluster has no topic or group with data 'none'"):
        await exported(url, tmp_path / "two", Selection(["none"]))
    await exported(url, tmp_path / "two", Selection(["orders"]))
