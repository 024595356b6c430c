"""The machine loses power under a process with an embedded Valkey: only what is on the disk remains."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.durability.append_only import AppendOnlyFile, embedded, kill, shim, synced
from tests.support.client import Client, connected
from tests.testkit.brokers import Serve, one_process

pytestmark = pytest.mark.xdist_group("durability-power")

TEXTS = [str(number) for number in range(20)]
PARTS = 6
"""The number of places between two moments at which the file is cut, most of them in the middle of a
write.
"""


async def worked(client: Client, topic: str, group_id: str, texts: list[str], accepted: int) -> list[int]:
    """Publishes, acquires everything, accepts the first few; returns the accepted offsets."""
    await client.publish(topic, texts)
    held = await client.acquire_all(group_id, topic, len(texts), "early")
    assert await client.acknowledge(group_id, "early", held[:accepted]) == [0] * accepted
    return [record.offset for record in held[:accepted]]


async def work_continues(client: Client, topic: str, topic_id: str, group_id: str) -> tuple[int, set[int]]:
    """Returns how many records exist and which were finished; work continues, and nothing finished is
    redelivered.
    """
    finished = await client.finished(group_id, topic_id)
    [(_, there)] = await client.publish(topic, ["after"])
    assert finished <= set(range(there)), "state of missing records"
    left = sorted(set(range(there)) - finished)
    again = await client.acquire_all(group_id, topic, len(left) + 1, "late")
    assert [(record.offset, record.text) for record in again] == [
        *((offset, TEXTS[offset]) for offset in left),
        (there, "after"),
    ]
    assert await client.acknowledge(group_id, "late", again) == [0] * len(again)
    assert await client.finished(group_id, topic_id) == set(range(there + 1))
    return there, finished


async def test_everysec_loses_at_most_the_last_second(tmp_path: Path) -> None:
    with one_process("--fsync", "everysec") as cluster:
        log = AppendOnlyFile(embedded(cluster))
        async with connected(cluster.address) as client:
            topic, topic_id = await client.create()
            group_id = await client.group()
            early = await worked(client, topic, group_id, TEXTS[:10], 5)
            on_disk = log.size
            late = await worked(client, topic, group_id, TEXTS[10:], 5)
        await asyncio.to_thread(kill, cluster)
        end, there_before = log.size, 10
        for part in range(PARTS + 1):
            data = tmp_path / str(part)
            shutil.copytree(embedded(cluster).parent, data, ignore=shutil.ignore_patterns("*.sock"))
            AppendOnlyFile(data / "valkey").cut(on_disk + (end - on_disk) * part // PARTS)
            serve = Serve(tmp_path, ["--data", str(data), "--fsync", "everysec"], f"broker-{part}")
            await asyncio.to_thread(serve.start)
            try:
                async with connected(serve.address) as client:
                    there, finished = await work_continues(client, topic, topic_id, group_id)
            finally:
                await asyncio.to_thread(serve.stop)
            assert set(early) <= finished <= {*early, *late}
            assert there_before <= there  # the more of the file remains, the more records exist
            there_before = there
        assert (there, finished) == (20, {*early, *late})


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
async def test_always_loses_no_acknowledged_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "synced"
    monkeypatch.setenv("LD_PRELOAD", str(shim(tmp_path)))
    # An embedded server inherits variables of the loader, LD_*, and no others of the tests.
    monkeypatch.setenv("LD_SYNCED", str(notes))
    with one_process("--fsync", "always") as cluster:
        log = AppendOnlyFile(embedded(cluster))
        async with connected(cluster.address) as client:
            topic, topic_id = await client.create()
            group_id = await client.group()
            accepted = await worked(client, topic, group_id, TEXTS[:10], 5)
            accepted += await worked(client, topic, group_id, TEXTS[10:], 5)
            await asyncio.to_thread(kill, cluster)
        on_disk = synced(notes, log.path)
        assert 0 < on_disk <= log.size
        log.cut(on_disk)
        await asyncio.to_thread(cluster.processes[0].start)
        async with connected(cluster.address) as client:
            assert await work_continues(client, topic, topic_id, group_id) == (20, set(accepted))


async def test_damaged_aof_stops_the_start_with_instructions() -> None:
    with one_process() as cluster:
        (serve,) = cluster.processes
        async with connected(cluster.address) as client:
            topic, _ = await client.create()
            await client.publish(topic, TEXTS)
        await asyncio.to_thread(kill, cluster)
        path = AppendOnlyFile(embedded(cluster)).path
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 64] = b"\xff" * 64
        path.write_bytes(data)
        await asyncio.to_thread(serve.launch)
        assert serve.process is not None
        assert await asyncio.to_thread(serve.process.wait, 30) == 2
        last = serve.log.splitlines()[-1]
        assert "Bad file format reading the append only file" in last
        assert "check-aof --fix" in last
        assert str(embedded(cluster)) in last
        assert "Traceback" not in serve.log
