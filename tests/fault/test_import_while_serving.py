"""Imports into a cluster of two brokers under load: killed, standing still, and complete."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from tests.durability.append_only import embedded
from tests.integration.broker.commands.commands import command
from tests.support.client import Client, connected
from tests.support.mid_work import Work
from tests.support.traffic import Traffic
from tests.testkit.brokers import START_SECONDS, Serve, lists_brokers, one_process, serving
from tests.testkit.redis_cluster import redis_cluster
from tests.testkit.servers import binaries, running
from tests.testkit.waiting import eventually

CLUSTER = "cluster"
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")

HELD_UP = """
from sharebroker.cli import main
from sharebroker_server.broker.archive.import_target import ImportTarget

write = ImportTarget.write

async def held_up(*arguments):
    print("owns all coordinators", flush=True)
    input()
    await write(*arguments)

ImportTarget.write = held_up
main()
"""
"""The command line with an import that stands still before it writes, until it reads a line."""


@pytest.fixture(params=[*sorted(binaries()), CLUSTER])
def redis_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == CLUSTER:
        with redis_cluster("valkey", 3, 0, *DURABLE) as cluster:
            yield cluster.url
    else:
        with running(request.param, *DURABLE) as server:
            yield server.url


@asynccontextmanager
async def held_up(*words: str) -> AsyncIterator[Process]:
    """Starts an import, and waits until it owns all coordinators; kills it at the end."""
    importing = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HELD_UP, "import", *words, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        assert importing.stdout is not None
        assert await importing.stdout.readline() == b"owns all coordinators\n"
        yield importing
    finally:
        if importing.returncode is None:
            importing.kill()
            await importing.communicate()


async def topics(client: Client) -> set[str]:
    response = await client.admin.Metadata(admin.MetadataRequest(), timeout=20.0)
    assert len(response.nodes) == 2, "an import is no broker for clients"
    return {topic.name for topic in response.topics}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_topics_are_imported_while_two_brokers_serve(tmp_path: Path, redis_url: str) -> None:
    """No client of the cluster has a record twice; the imported group continues where it was."""
    work = Work()
    archive = str(tmp_path / "archive")
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            await work.begin(client)
            done = await command("export", archive, "--data", str(embedded(cluster).parent))
            assert done.returncode == 0, done.stderr
    words = (archive, "--redis", redis_url)
    brokers = [
        Serve(tmp_path, ["--redis", redis_url, "--set", f"node.id={number}"], f"broker-{number}")
        for number in (1, 2)
    ]
    with serving(brokers):
        first, second = (broker.address for broker in brokers)
        await eventually(lambda: lists_brokers(first, 2) and lists_brokers(second, 2), START_SECONDS)
        async with connected(first) as client:
            topic, topic_id = await client.create(4)
            traffic = Traffic(second, topic, await client.group())
            async with traffic.flowing() as books:
                async with held_up(*words) as importing:
                    assert await topics(client) == {topic}, "only a complete import has topics"
                    importing.kill()
                    await traffic.moves()
                async with held_up(*words) as importing:
                    await traffic.moves()  # the brokers took the coordinators back
                    _, printed = await importing.communicate(b"\n")
                    assert b"stood still, and another process took over what it writes" in printed
                    assert importing.returncode == 1
                    assert await topics(client) == {topic}
                done = await command("import", *words)
                assert done.returncode == 0, done.stderr
                await traffic.moves()
            async with connected(second) as other:
                await eventually(lambda: continues(work, other), 60.0)
                await work.finish(other)
            await traffic.drain(client, topic_id)
    assert not books.broken
    assert {*books.deliveries.values()} == {1}, "no lock was lost"


async def continues(work: Work, client: Client) -> bool:
    """Returns whether the brokers serve the imported topic and the state of its group."""
    if work.topic not in await topics(client):
        return False
    found = await client.inspect(work.group_id, work.topic_id)
    return found.folded.start_offset == 0
