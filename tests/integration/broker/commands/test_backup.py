"""`sharebroker backup` beside a server at work: what it contains, and that it can be killed."""

from __future__ import annotations

import json
from pathlib import Path

from sharebroker_server.broker.commands.backup import EXAMPLES
from tests.durability.append_only import embedded
from tests.integration.broker.commands.commands import command, killed_at
from tests.support.client import connected
from tests.testkit.brokers import Cluster, Serve, one_process
from tests.testkit.waiting import eventually

RECORDS = 60


def data_of(cluster: Cluster) -> str:
    return str(embedded(cluster).parent)


def test_examples_name_the_command() -> None:
    assert all(example.startswith("sharebroker backup ") for example in EXAMPLES)


async def test_a_restored_cluster_delivers_no_record_that_was_accepted(tmp_path: Path) -> None:
    """A group is in mid-work: half of its records are accepted, a quarter is locked, one was released."""
    texts = [str(number) for number in range(RECORDS)]
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            topic, topic_id = await client.create()
            group_id = await client.group()
            await client.publish(topic, texts)
            held = await client.acquire_all(group_id, topic, RECORDS * 3 // 4, "early")
            accepted = held[::2]
            assert set(await client.acknowledge(group_id, "early", accepted)) == {0}
            done = await command("backup", str(tmp_path / "backup"), "--data", data_of(cluster), "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["files"] >= 4
            await client.publish(topic, ["later"])
    done = await command("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "new"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    restored = Serve(tmp_path, ["--data", str(tmp_path / "new")])
    restored.start()
    try:
        async with connected(restored.address) as client:
            left = {*texts} - {record.text for record in accepted}
            found: list[str] = []

            async def complete() -> bool:
                response = await client.acquire(group_id, topic, RECORDS, member="late", wait=0.5)
                found.extend(record.text for record in response.records)
                assert set(await client.acknowledge(group_id, "late", response.records)) <= {0}
                return len(found) >= len(left)

            await eventually(complete, 60.0)
            assert sorted(found) == sorted(left)
            assert await client.finished(group_id, topic_id) == {*range(RECORDS)}
    finally:
        restored.stop()


async def test_a_killed_backup_continues_and_the_server_is_unaffected(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            topic, _ = await client.create()
            await client.publish(topic, ["x" * 900_000] * 3)
            words = ["backup", str(target), "--data", data_of(cluster)]
            for flush in (1, 2):
                await killed_at(flush, *words)
                assert (target / "backup.unfinished").exists()
                assert not (target / "backup.json").exists()
            await client.publish(topic, ["after"])
            done = await command(*words)
            assert done.returncode == 0, done.stderr
            again = await command(*words)
    assert again.returncode == 1
    assert "contains a complete backup" in again.stderr

    restored = tmp_path / "new"
    words = ["restore", str(target), "--data", str(restored)]
    for flush in (1, 2):
        await killed_at(flush, *words)
    refused = await command("serve", "--data", str(restored))
    assert (refused.returncode, "unfinished restore" in refused.stderr) == (2, True)
    done = await command(*words)
    assert done.returncode == 0, done.stderr
    serve = Serve(tmp_path, ["--data", str(restored)])
    serve.start()
    try:
        async with connected(serve.address) as client:
            found = await client.acquire_all(await client.group(), topic, 4, "late")
    finally:
        serve.stop()
    assert [record.text for record in found] == [*["x" * 900_000] * 3, "after"]
