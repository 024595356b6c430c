"""franz-go, unmodified: its producers and its share group, on one broker and on three."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.support.client import connected
from tests.testkit.brokers import Cluster, one_process, three_brokers

PROGRAM = ROOT / ".cache" / "bin" / "franz-go"
SOURCES = [*Path(__file__).parent.joinpath("go").iterdir()]
MEMBERS, RECORDS, PARTITIONS = 2, 200, 6
LOCK_MS, BACKOFF_MS = 1000, 2000
RELEASED = 1
"""Records whose number has this remainder by four are released at their first delivery."""

needs_program = pytest.mark.skipif(
    not PROGRAM.exists() or any(one.stat().st_mtime > PROGRAM.stat().st_mtime for one in SOURCES),
    reason="the Go program is not built, or older than its source: make franz-go",
)
pytestmark = needs_program


@pytest.fixture(scope="module", params=["one broker", "three brokers"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    start = one_process if request.param == "one broker" else three_brokers
    with start("--set", f"group.share.min.record.lock.duration.ms={LOCK_MS}") as cluster:
        yield cluster


def run(cluster: Cluster, *arguments: str) -> list[str]:
    """Returns the lines that the program writes."""
    return run_at(",".join(serve.kafka for serve in cluster.processes), *arguments)


def run_at(addresses: str, *arguments: str) -> list[str]:
    """Returns the lines that the program writes for a cluster with these bootstrap servers."""
    command = [str(PROGRAM), addresses, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def deliveries(lines: Iterable[str]) -> list[tuple[int, int, int, int]]:
    """Returns the program's output: number of the record, delivery count, partition and offset of each
    delivery.
    """
    rows = [line.split(" ", 3) for line in lines]
    return sorted(
        (int(value.removeprefix("record ")), int(count), int(partition), int(offset))
        for partition, offset, count, value in rows
    )


def check_deliveries(got: Iterable[tuple[int, int, int, int]]) -> None:
    """Checks that each record was delivered once, and those that were released a second time."""
    assert [(number, count) for number, count, _, _ in got] == [
        (number, count) for number in range(RECORDS) for count in ([1, 2] if number % 4 == RELEASED else [1])
    ]


async def test_share_group_members_consume_produced_records(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(PARTITIONS)
        group = await client.group()
        lines = await asyncio.to_thread(run, cluster, topic, group, str(MEMBERS), str(RECORDS))
        check_deliveries(got := deliveries(lines))
        for partition in range(PARTITIONS):
            finished = await client.finished(group, topic_id, partition)
            assert finished == {offset for _, _, where, offset in got if where == partition}


async def test_failed_records_return_after_the_backoff(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create()
        await client.publish(topic, ["released", "timed out"])
        group = await client.group(
            share_record_lock_duration_ms=str(LOCK_MS),
            share_retry_backoff_ms=str(BACKOFF_MS),
            share_retry_backoff_jitter="0",
        )
        lines = await asyncio.to_thread(run, cluster, "retry", topic, group, str(LOCK_MS))
        got = [tuple(map(int, line.split())) for line in lines]
        assert sorted(delivery[:2] for delivery in got) == [(0, 1), (0, 2), (1, 1), (1, 2)]
        waited = {offset: after for offset, count, after in got if count == 2}
        assert waited[0] >= BACKOFF_MS
        assert waited[1] >= LOCK_MS + BACKOFF_MS
        assert await client.finished(group, topic_id, 0) == {0, 1}


async def test_unsupported_group_is_rejected_at_once() -> None:
    with one_process("--feature", "share.version=0") as without_share:
        async with connected(without_share.address) as client:
            topic, _ = await client.create()
        lines = await asyncio.to_thread(run, without_share, topic, "group")
    assert lines[0].startswith("unable to join group session: broker is too old")
