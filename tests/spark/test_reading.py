"""Tasks read ranges in Spark's environment: what is gone, what was aborted, what is no text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.testkit.brokers import Cluster, one_process
from sharebroker.gateway.v1 import produce_pb2 as produce
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.spark.environment import needs_spark, running
from tests.support.client import TIMEOUT, Client, connected

pytestmark = [needs_spark, pytest.mark.timeout(600), pytest.mark.xdist_group("spark reading")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


async def read(folder: Path, cluster: Cluster, topic: str, first: int, last: int) -> dict[str, Any]:
    arguments = (cluster.address, topic, str(first), str(last))
    with running("ranges", folder / "program", *arguments) as program:
        await asyncio.to_thread(program.says, "committed")
        return {name: program.value(name) for name in ("strict", "lenient", "committed")}


async def published(client: Client, values: list[bytes]) -> tuple[str, str]:
    topic, topic_id = await client.create()
    records = [produce.PublishRecord(value=value) for value in values]
    await client.produce.Publish(produce.PublishRequest(topic=topic, records=records), timeout=TIMEOUT)
    return topic, topic_id


async def test_a_range_is_cut_out_of_its_batches(cluster: Cluster, tmp_path: Path) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await published(client, [b"0", b"1", b"\xff", b"3"])
        seen = await read(tmp_path, cluster, topic, 1, 2)
    assert list(seen.values()) == [[[1, "1"], [2, "�"]]] * 3


async def test_what_retention_removed_is_told_or_left_out(cluster: Cluster, tmp_path: Path) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await published(client, [b"0", b"1", b"2"])
        await client.publish(topic, ["3", "4"])
        part = leader.DeleteRecordsRequest.Partition(topic_id=topic_id, partition=0, offset=3)
        await client.admin.DeleteRecords(leader.DeleteRecordsRequest(partitions=[part]), timeout=TIMEOUT)
        seen = await read(tmp_path, cluster, topic, 1, 4)
    assert f"Offsets 1 to 2 of {topic}-0 are no longer in the log" in seen["strict"]
    assert "failOnDataLoss=false" in seen["strict"]
    assert seen["lenient"] == seen["committed"] == [[3, "3"], [4, "4"]]


async def test_what_the_log_never_had_is_told(cluster: Cluster, tmp_path: Path) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await published(client, [b"0", b"1"])
        seen = await read(tmp_path, cluster, topic, 1, 7)
    assert f"Offsets 2 to 7 of {topic}-0" in seen["strict"]
    assert seen["lenient"] == [[1, "1"]]
