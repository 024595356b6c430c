"""Backup of an embedded Valkey that runs, and restore: what they contain, interruptions and damage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker import backup
from sharebroker_server.broker.backup import BACKUP_MARKER, restore_backup, take_backup
from sharebroker_server.broker.core.backup_contents import BackupError
from sharebroker_server.broker.redis import RESTORE_MARKER, open_redis
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.redis_link.embedded import EmbeddedRedis
from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.redis_link.port import DataDirectoryInUse, EmbeddedRedisFailed
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.servers  # it starts Valkey

KEYS = 300


class Interrupted(Exception):
    """Stands for a signal that ends the process."""


def unlimited(_size: int) -> Callable[[int], None]:
    return lambda _done: None


def until(limit: int) -> backup.Begin:
    """Returns a progress that ends the copy after this many bytes."""

    def begin(_size: int) -> Callable[[int], None]:
        left = limit

        def advance(done: int) -> None:
            nonlocal left
            left -= done
            if left < 0:
                raise Interrupted

        return advance

    return begin


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_CHUNK", 1000)


async def stored(data: Path) -> list[bytes]:
    """Returns the list `keys` of a data folder that no server uses."""
    server = EmbeddedRedis(data / "valkey")
    await server.start()
    link = await RedisLink.connect(server.url)
    try:
        found: list[bytes] = await link.call("LRANGE", "keys", 0, -1, timeout=5.0)
        return found
    finally:
        await link.close()
        await server.stop()


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """A data folder with a base file and commands after it."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "node.json").write_text("{}")
    server = EmbeddedRedis(folder / "valkey")
    await server.start()
    link = await RedisLink.connect(server.url)
    for number in range(KEYS):
        await link.call("RPUSH", "keys", number, timeout=5.0)
        if number == KEYS // 2:
            await link.call("BGREWRITEAOF", timeout=5.0)
    await eventually(partial(rewritten, link))
    await link.close()
    await server.stop()
    return folder


async def test_a_backup_of_a_running_server_has_all_acknowledged_writes(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "data" / "valkey")
    await server.start()
    link = await RedisLink.connect(server.url)
    written = 0

    async def write() -> None:
        nonlocal written
        while True:
            await link.call("RPUSH", "keys", written, timeout=5.0)
            written += 1

    def reached(count: int) -> bool:
        return written >= count

    writing = asyncio.create_task(write())
    least = []
    for number in range(3):
        await eventually(partial(reached, 200 * (number + 1)))
        await link.call("BGREWRITEAOF", timeout=5.0)
        least.append(written)
        await asyncio.to_thread(
            asyncio.run, take_backup(tmp_path / "data", tmp_path / str(number), unlimited)
        )
        await eventually(partial(rewritten, link))
    writing.cancel()
    await link.close()
    await server.stop()
    for number, count in enumerate(least):
        await restore_backup(tmp_path / str(number), tmp_path / f"new-{number}", unlimited)
        found = await stored(tmp_path / f"new-{number}")
        assert found == [str(value).encode() for value in range(len(found))]
        assert count <= len(found) <= written + 1


async def rewritten(link: RedisLink) -> bool:
    info = await link.call("INFO", "persistence", timeout=5.0)
    return b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info


async def test_interrupted_backups_and_restores_continue(data: Path, tmp_path: Path) -> None:
    target, new = tmp_path / "backup", tmp_path / "new"
    for limit in range(0, 8000, 1500):
        with pytest.raises(Interrupted):
            await take_backup(data, target, until(limit))
        assert (target / BACKUP_MARKER).exists()
        with pytest.raises(BackupError, match="no complete backup"):
            await restore_backup(target, new, unlimited)
    contents = await take_backup(data, target, unlimited)
    assert not (target / BACKUP_MARKER).exists()
    for limit in range(0, contents.size, 1500):
        with pytest.raises(Interrupted):
            await restore_backup(target, new, until(limit))
        settings = ServeSettings(data=new, config=BrokerConfig.parse(()))
        async with AsyncExitStack() as stack:
            with pytest.raises(KafkaError, match="unfinished restore"):
                await open_redis(settings, stack)
    assert await restore_backup(target, new, unlimited) == contents
    assert not (new / RESTORE_MARKER).exists()
    assert await stored(new) == [str(number).encode() for number in range(KEYS)]
    assert (new / "node.json").read_text() == "{}"


async def test_a_continued_copy_replaces_bytes_that_differ(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with pytest.raises(Interrupted):
        await take_backup(data, target, until(7000))
    for path in target.rglob("appendonly.aof.*"):
        path.write_bytes(b"x" * (path.stat().st_size + 5000))
    (target / "valkey" / "appendonlydir" / "appendonly.aof.99.base.rdb").touch()
    await take_backup(data, target, unlimited)
    await restore_backup(target, tmp_path / "new", unlimited)
    assert len(await stored(tmp_path / "new")) == KEYS
    assert not list((tmp_path / "new").rglob("*99*"))


@pytest.mark.parametrize(
    "change",
    [lambda data: b"\0" + data[1:], lambda data: data[:-1], lambda data: data + b"x", None],
    ids=["changed", "shorter", "longer", "missing"],
)
async def test_a_damaged_backup_is_rejected(
    change: Callable[[bytes], bytes] | None, data: Path, tmp_path: Path
) -> None:
    await take_backup(data, tmp_path / "backup", unlimited)
    (damaged,) = (tmp_path / "backup").rglob("*.base.rdb")
    if change is None:
        damaged.unlink()
    else:
        damaged.write_bytes(change(damaged.read_bytes()))
    with pytest.raises(BackupError, match=r"base\.rdb is damaged"):
        await restore_backup(tmp_path / "backup", tmp_path / "new", unlimited)
    assert (tmp_path / "new" / RESTORE_MARKER).exists()


async def test_only_new_and_empty_folders_are_written(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    await take_backup(data, target, unlimited)
    with pytest.raises(BackupError, match="contains a complete backup"):
        await take_backup(data, target, unlimited)
    for folder in (data, target):
        with pytest.raises(BackupError, match="is not empty"):
            await restore_backup(target, folder, unlimited)
    with pytest.raises(BackupError, match="is not empty"):
        await take_backup(data, data, unlimited)
    with pytest.raises(BackupError, match="no complete backup"):
        await restore_backup(data, tmp_path / "new", unlimited)
    with pytest.raises(EmbeddedRedisFailed, match="has no data"):
        await take_backup(tmp_path / "absent", tmp_path / "other", unlimited)
    for path in (target, *target.rglob("*")):
        assert not path.stat().st_mode & 0o077


async def test_a_restore_needs_a_folder_that_no_server_uses(data: Path, tmp_path: Path) -> None:
    await take_backup(data, tmp_path / "backup", unlimited)
    server = EmbeddedRedis(tmp_path / "new" / "valkey")
    await server.start()
    with pytest.raises(DataDirectoryInUse):
        await restore_backup(tmp_path / "backup", tmp_path / "new", unlimited)
    await server.stop()


async def test_an_unfinished_restore_is_not_backed_up(data: Path, tmp_path: Path) -> None:
    (data / RESTORE_MARKER).touch()
    with pytest.raises(BackupError, match="unfinished restore"):
        await take_backup(data, tmp_path / "backup", unlimited)
