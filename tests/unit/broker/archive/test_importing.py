"""An import of an archive, and what interrupts or prevents it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.import_target import ImportTarget
from sharebroker_server.broker.archive.importing import Imported, import_archive
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import Selection
from sharebroker_server.broker.core.archive_topics import Choices
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.stream_log.redis import RedisStreamLog
from tests.testkit.servers import kinds
from tests.testkit.shared_servers import CLUSTER, Servers
from tests.unit.broker.archive.scene import (
    KilledError,
    Killer,
    at,
    content,
    exported,
    imported,
    logs,
    make_archive,
    opened,
)
from tests.unit.broker.core.archives import BILLS, ORDERS

pytestmark = pytest.mark.servers


SAMPLE = Path(__file__).parents[3] / "samples" / "0.1.0" / "archive"
"""The archive of `make_archive`, as release 0.1.0 wrote it.

It never changes: a change that breaks its import needs another version of the format.
"""


@pytest.fixture(params=[*kinds(), CLUSTER])
def url(request: pytest.FixtureRequest, redis_servers: Servers) -> str:
    return redis_servers.fresh(request.param)


ONE = pytest.mark.parametrize("url", ["valkey"], indirect=True)
"""For what does not depend on the kind of server."""


def make_another_archive(path: Path) -> None:
    """Writes an archive with the topics of `make_archive`, as another export of the same cluster does."""
    make_archive(path)
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"archive"', b'"another"'))


async def expire_leases(url: str) -> None:
    """Makes all leases of partitions and of imports free, as they are after 5 seconds without a renewal."""
    async with opened(url) as stores:
        resources = ["import", *(f"partition:{topic}:{number}" for topic, number in logs())]
        for lease in await stores.leases.read(resources):
            if lease is not None:
                await stores.leases.release(lease.resource, lease.owner)


async def test_an_export_of_an_imported_archive_is_equal(url: str, tmp_path: Path) -> None:
    before = make_archive(tmp_path / "one")
    assert await imported(url, tmp_path / "one") == (2, 3, 4008, ())
    after = await exported(url, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")
    epochs = [{each.leader_epoch for each in archive.partitions} for archive in (before, after)]
    assert epochs[0] == epochs[1] == {3, 5, 12}


@ONE
async def test_an_archive_of_an_earlier_release_is_imported(url: str, tmp_path: Path) -> None:
    make_archive(tmp_path / "one")
    assert content(SAMPLE) == content(tmp_path / "one")
    assert await imported(url, SAMPLE) == (2, 3, 4008, ())


@ONE
async def test_a_killed_import_continues_at_any_step(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archive(tmp_path / "one")
    step = 0
    killed = True
    while killed:
        step += 1
        killer = Killer(step)
        with monkeypatch.context() as patch:
            for store in (RedisRecordStore, RedisStreamLog):
                patch.setattr(store, "append", killer.before(store.append))
            patch.setattr(ArchiveFolder, "read_records", killer.before(ArchiveFolder.read_records))
            try:
                await import_archive(at(url), tmp_path / "one", Choices(), killer.begin)
            except KilledError:
                async with opened(url) as stores:
                    assert not await stores.log.last_position("catalog"), "no server uses the topics yet"
        killed = killer.killed
    assert step > 15
    await exported(url, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")


@ONE
async def test_remains_of_an_import_of_another_archive_are_replaced(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archive(tmp_path / "one")
    with monkeypatch.context() as patch:
        patch.setattr(RedisStreamLog, "append", Killer(1).before(RedisStreamLog.append))
        with pytest.raises(KilledError):
            await imported(url, tmp_path / "one")
    make_another_archive(tmp_path / "other")
    await imported(url, tmp_path / "other")
    await exported(url, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")


@ONE
async def test_a_part_of_an_archive_is_imported(url: str, tmp_path: Path) -> None:
    make_archive(tmp_path / "one")
    first = Choices(Selection(["orders"], ["g"]))
    assert await imported(url, tmp_path / "one", first) == (1, 1, 8, ())
    rest = Choices(skip_existing=True)
    assert await imported(url, tmp_path / "one", rest) == (1, 2, 4000, ("orders",))
    await exported(url, tmp_path / "two")
    assert content(tmp_path / "two").logs == content(tmp_path / "one").logs


@ONE
async def test_a_topic_is_imported_beside_the_original(url: str, tmp_path: Path) -> None:
    make_archive(tmp_path / "one")
    await imported(url, tmp_path / "one")
    with pytest.raises(ArchiveError, match="'orders' already exists"):
        await imported(url, tmp_path / "one")
    await imported(url, tmp_path / "one", Choices(Selection(["orders"]), {"orders": "copy"}))
    await exported(url, tmp_path / "two", Selection(["copy"]))
    copied = {partition: fields for (_, partition), fields in content(tmp_path / "two").logs.items()}
    assert copied == {
        partition: fields
        for (topic_id, partition), fields in content(tmp_path / "one").logs.items()
        if topic_id == ORDERS.topic_id
    }


@ONE
@pytest.mark.parametrize("part", ["metadata.jsonl", f"records/{BILLS.topic_id}/0/{1500:020d}.zst"])
async def test_a_damaged_archive_is_rejected_and_creates_no_topic(
    url: str, tmp_path: Path, part: str
) -> None:
    make_archive(tmp_path / "one")
    path = tmp_path / "one" / part
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match=f"{path.name} is damaged: its size or its checksum is wrong"):
        await imported(url, tmp_path / "one")
    path.unlink()
    with pytest.raises(ArchiveError, match=f"{path.name} is missing"):
        await imported(url, tmp_path / "one")
    async with opened(url) as stores:
        assert not await stores.log.last_position("catalog")


@ONE
async def test_of_two_imports_at_the_same_time_one_is_complete(url: str, tmp_path: Path) -> None:
    """They have the same topics, as two exports of one cluster have."""
    make_archive(tmp_path / "one")
    make_another_archive(tmp_path / "other")
    results = await asyncio.gather(
        *(imported(url, tmp_path / name) for name in ("one", "other")), return_exceptions=True
    )
    assert sorted(isinstance(result, Imported) for result in results) == [False, True]
    [failure] = [str(result) for result in results if isinstance(result, ArchiveError)]
    assert "already exists" in failure
    await exported(url, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")


@ONE
async def test_an_import_that_another_one_replaced_creates_no_topic(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archive(tmp_path / "one")
    take_over = ImportTarget.take_over

    async def then_stalls(target: ImportTarget, stack: AsyncExitStack) -> None:
        await take_over(target, stack)
        leases = target.stores.leases
        [lease] = await leases.read(["import"])
        assert lease is not None
        await leases.release("import", lease.owner)
        await leases.claim("import", "1/1", 10.0)

    monkeypatch.setattr(ImportTarget, "take_over", then_stalls)
    with pytest.raises(ArchiveError, match=r"stood still, and another process took over .* \(import\)"):
        await imported(url, tmp_path / "one")
    async with opened(url) as stores:
        assert not await stores.log.last_position("catalog")


async def test_an_import_that_stood_still_deletes_no_log_of_another_one(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other import has the same topics, and is complete when the first one continues."""
    make_archive(tmp_path / "one")
    make_another_archive(tmp_path / "other")
    others: list[asyncio.Task[Imported]] = []
    begin_import = RedisRecordStore.begin_import

    async def other() -> Imported:
        await expire_leases(url)
        return await imported(url, tmp_path / "other")

    async def after_the_other(records: RedisRecordStore, partition: str, epoch: int, archive_id: str) -> bool:
        if archive_id == "archive":
            if not others:
                others.append(asyncio.create_task(other()))
            assert (await others[0]).records == 4008
        return await begin_import(records, partition, epoch, archive_id)

    monkeypatch.setattr(RedisRecordStore, "begin_import", after_the_other)
    with pytest.raises(ArchiveError, match="stood still, and another process took over"):
        await imported(url, tmp_path / "one")
    await exported(url, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")


@ONE
async def test_records_of_an_unknown_topic_are_kept(url: str, tmp_path: Path) -> None:
    make_archive(tmp_path / "one")
    async with opened(url) as stores:
        resource = f"partition:{ORDERS.topic_id}:1"
        lease = await stores.leases.claim(resource, "1/1", 0.001)
        await stores.records.extend(resource, lease.epoch, 5)
    with pytest.raises(
        ArchiveError, match=r"Redis has records of partition:orders.*, and the catalog has no"
    ):
        await imported(url, tmp_path / "one")


@ONE
async def test_a_server_that_does_not_hand_over_is_named(url: str, tmp_path: Path) -> None:
    make_archive(tmp_path / "one")
    async with opened(url) as stores:
        await stores.leases.claim("group-coordinator:1", "1/1", 60.0)
    with pytest.raises(ArchiveError, match="Another process holds the lease of group-coordinator:1"):
        await import_archive(
            at(url, "broker.session.timeout.ms=1000"), tmp_path / "one", Choices(), Killer(999).begin
        )
