"""`sharebroker export` beside a server at work: what it contains, and that it can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from itertools import count
from pathlib import Path

import pytest

from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.broker.commands.export import EXAMPLES
from tests.durability.append_only import embedded
from tests.integration.broker.commands.commands import MAIN, command
from tests.support.client import REJECT, RELEASE, Client, connected
from tests.testkit.brokers import Cluster, Serve, one_process
from tests.testkit.servers import binaries, running
from tests.testkit.waiting import eventually

RECORDS = 60


def test_examples_name_the_command() -> None:
    assert all(example.startswith("sharebroker export ") for example in EXAMPLES)


class Work:
    """A group in mid-work: a third of its records is accepted, one was released, others are locked."""

    def __init__(self) -> None:
        self.texts = [str(number) for number in range(RECORDS)]
        self.accepted: list[str] = []
        self.topic = self.topic_id = self.group_id = ""

    async def begin(self, client: Client) -> None:
        """Creates topic and group, publishes, and does a part of the work."""
        self.topic, self.topic_id = await client.create(retention_ms="-1")
        self.group_id = await client.group(share_delivery_count_limit="9")
        await client.publish(self.topic, self.texts)
        held = await client.acquire_all(self.group_id, self.topic, RECORDS * 2 // 3, "early")
        accepted = held[1::2]
        assert set(await client.acknowledge(self.group_id, "early", accepted)) == {0}
        assert set(await client.acknowledge(self.group_id, "early", held[:1], RELEASE)) == {0}
        assert set(await client.acknowledge(self.group_id, "early", held[2:3], REJECT)) == {0}
        self.accepted = [record.text for record in accepted]

    async def failed(self, client: Client) -> list[tuple[int, int, int]]:
        """Returns first and last offset and delivery count of the failed records."""
        request = admin.ListFailedRecordsRequest(group_id=self.group_id, topic=self.topic)
        response = await client.admin.ListFailedRecords(request, timeout=30.0)
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in response.entries]

    async def finish(self, client: Client) -> None:
        """Does the rest of the work: all other records arrive, once."""
        left = sorted({*self.texts} - {*self.accepted, "2"})
        assert await self.failed(client) == [(2, 2, 1)]
        found: dict[str, int] = {}

        async def complete() -> bool:
            response = await client.acquire(self.group_id, self.topic, RECORDS, member="late", wait=0.5)
            for record in response.records:
                assert record.text not in found
                found[record.text] = record.delivery_count
            assert set(await client.acknowledge(self.group_id, "late", response.records)) <= {0}
            return len(found) >= len(left)

        await eventually(complete, 60.0)
        assert sorted(found) == left
        assert found["0"] == 2, "the delivery count of the released record was kept"
        assert await client.finished(self.group_id, self.topic_id) == {*range(RECORDS)}


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
        assert f"Exported {RECORDS} records of 1 topics, and 1 groups" in done.stderr
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
            running_export = await asyncio.create_subprocess_exec(*MAIN, *words, stderr=subprocess.DEVNULL)
            await eventually(lambda: (target / "export.unfinished").exists() or manifest.exists())
            with contextlib.suppress(ProcessLookupError):
                running_export.kill()
            await running_export.wait()
            await client.publish(topic, ["after"])
            if not manifest.exists():  # it was killed in time
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
