"""`sharebroker export` beside a server at work: what it contains, and that it can be killed."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path

import pytest

from sharebroker_server.broker.commands.export import EXAMPLES
from tests.durability.append_only import embedded
from tests.integration.broker.commands.commands import command, killed_at
from tests.support.client import connected
from tests.support.mid_work import RECORDS, Work
from tests.testkit.brokers import Cluster, Serve, one_process
from tests.testkit.servers import binaries, running
from tests.testkit.waiting import eventually


def test_examples_name_the_command() -> None:
    assert all(example.startswith("sharebroker export ") for example in EXAMPLES)


def data_of(cluster: Cluster) -> str:
    return str(embedded(cluster).parent)


async def test_an_imported_group_continues_where_it_was_in_an_embedded_valkey(tmp_path: Path) -> None:
    work = Work()
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            await work.begin(client)
            done = await command("export", str(tmp_path / "archive"), "--data", data_of(cluster), "--json")
            assert done.returncode == 0, done.stderr
            counts = json.loads(done.stdout)
            assert (counts["topics"], counts["groups"], counts["records"]) == (1, 1, RECORDS)
            await client.publish(work.topic, ["later"])
    done = await command("import", str(tmp_path / "archive"), "--data", str(tmp_path / "new"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"topics": 1, "groups": 1, "records": RECORDS, "skipped": []}
    served = Serve(tmp_path, ["--data", str(tmp_path / "new")])
    await finishes(served, work)
    again = await command("import", str(tmp_path / "archive"), "--data", str(tmp_path / "new"))
    assert again.returncode == 1
    assert "already exists" in again.stderr


@pytest.mark.parametrize("kind", sorted(binaries()))
async def test_an_imported_group_continues_where_it_was_in_a_redis(tmp_path: Path, kind: str) -> None:
    work = Work()
    durable = ("--appendonly", "yes", "--appendfsync", "always")
    with running(kind, *durable) as source, running(kind, *durable) as target:
        serve = Serve(tmp_path, ["--redis", source.url], "source")
        serve.start()
        async with connected(serve.address) as client:
            await work.begin(client)
        serve.stop()
        done = await command("export", str(tmp_path / "archive"), "--redis", source.url)
        assert done.returncode == 0, done.stderr
        assert f"Exported {RECORDS} records of 1 topic, and 1 group as of" in done.stderr
        done = await command("import", str(tmp_path / "archive"), "--redis", target.url)
        assert done.returncode == 0, done.stderr
        await finishes(Serve(tmp_path, ["--redis", target.url], "target"), work)


async def finishes(serve: Serve, work: Work) -> None:
    """Finishes the work at a server, and verifies the group before and after."""
    serve.start()
    try:
        async with connected(serve.address) as client:
            for step in ("before", "after"):
                verified = await command("verify", work.group_id, "--server", serve.address)
                assert verified.returncode == 0, (step, verified.stdout, verified.stderr)
                if step == "before":
                    await work.finish(client)
    finally:
        serve.stop()


async def test_a_killed_export_continues_and_the_server_is_unaffected(tmp_path: Path) -> None:
    target, manifest = tmp_path / "archive", tmp_path / "archive" / "manifest.json"
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            topic, _ = await client.create(4)
            for partition in range(4):
                await client.publish(topic, ["x" * 900_000] * 3, partition=partition)
            words = ["export", str(target), "--data", data_of(cluster)]
            for flush in (1, 2):
                await killed_at(flush, *words)
                assert (target / "export.unfinished").exists()
                assert not manifest.exists()
            await client.publish(topic, ["after"])
            done = await command(*words)
            assert done.returncode == 0, done.stderr
            again = await command(*words)
    assert again.returncode == 1
    assert "contains a complete archive" in again.stderr


async def test_an_export_beside_busy_clients_repeats_and_skips_no_record(tmp_path: Path) -> None:
    """Records are published and accepted during the export. No acceptance before it is lost."""
    accepted: set[str] = set()
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            topic, _ = await client.create(2)
            group_id = await client.group()

            async def publish() -> None:
                for number in count():
                    texts = [f"{number}-{index}" for index in range(20)]
                    await client.publish(topic, texts, partition=number % 2)

            async def work(member: str) -> None:
                while True:
                    records = (await client.acquire(group_id, topic, 15, member=member)).records
                    if set(await client.acknowledge(group_id, member, records)) == {0}:
                        accepted.update(record.text for record in records)

            tasks = [asyncio.create_task(each) for each in (publish(), work("a"), work("b"))]
            await eventually(lambda: len(accepted) > 500)
            before = set(accepted)
            done = await command("export", str(tmp_path / "archive"), "--data", data_of(cluster))
            assert done.returncode == 0, done.stderr
            during = accepted - before
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert during, "the clients worked during the export"
    done = await command("import", str(tmp_path / "archive"), "--data", str(tmp_path / "new"), "--json")
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)["records"]
    serve = Serve(tmp_path, ["--data", str(tmp_path / "new")])
    serve.start()
    try:
        async with connected(serve.address) as client:
            found: list[str] = []
            while batch := (await client.acquire(group_id, topic, 500, member="late", wait=2.0)).records:
                found += [record.text for record in batch]
                assert set(await client.acknowledge(group_id, "late", batch)) == {0}
    finally:
        serve.stop()
    assert len(found) == len({*found})
    assert not before & {*found}, "an accepted record came again"
    assert len({*found} | accepted) >= records, "a record was skipped"
