"""The disk under a Redis is full: acknowledged work survives, and work continues once there is space."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.durability.scene import Scene, accepted, acquired, published
from tests.support.client import Client, connected, rejection_of
from tests.testkit.brokers import Serve
from tests.testkit.servers import responds, running
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("durability-disk")

DISK_BYTES = 16 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Provides a small separate disk."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this user cannot mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def _publish_until_full(client: Client, topic: str) -> None:
    """Publishes until the rest of the disk is used up."""
    while True:
        await client.publish(topic, ["x" * 1000], timeout=5.0)


@pytest.mark.parametrize("fsync", ["everysec", "always"])
async def test_writes_are_rejected_while_the_disk_is_full(disk: Path, tmp_path: Path, fsync: str) -> None:
    """With `always` the server exits and is restarted; with `everysec` it rejects writes."""
    with running("valkey", "--appendonly", "yes", "--appendfsync", fsync, within=disk) as server:
        serve = Serve(tmp_path, ["--redis", server.url])
        await asyncio.to_thread(serve.start)
        try:
            async with connected(serve.address) as client:
                scene = await Scene.set(client)
                await scene.last_second(client)
                filler = disk / "filler"
                filler.write_bytes(bytes(max(shutil.disk_usage(disk).free - 32768, 0)))
                with pytest.raises(grpc.aio.AioRpcError) as full:
                    await _publish_until_full(client, scene.topic)
                assert rejection_of(full.value).retriable
                filler.unlink()
                if not await asyncio.to_thread(responds, server.url):
                    await asyncio.to_thread(server.process.wait, 10)
                    await asyncio.to_thread(server.restart)
                await eventually(lambda: asyncio.to_thread(responds, server.url))
                await published(client, scene.topic, "after")
                await accepted(client, scene.group_id, "early", scene.held[2:])
                found = await acquired(client, scene.group_id, scene.topic, 4)
                assert {"d", "e", "after"} <= set(found)
                assert not {"a", "b"} & set(found)
            await asyncio.to_thread(serve.kill)
            await asyncio.to_thread(serve.start)
            async with connected(serve.address) as client:
                assert {0, 1, 2} <= await client.finished(scene.group_id, scene.topic_id)
        finally:
            await asyncio.to_thread(serve.stop)
