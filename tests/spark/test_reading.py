"""Tasks read ranges in Spark's environment: deleted records, aborted transactions, values that are not
text.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.spark.environment import needs_spark, running
from tests.support.client import TIMEOUT, Client, connected
from tests.testkit.brokers import Cluster

pytestmark = [needs_spark, pytest.mark.timeout(600), pytest.mark.xdist_group("spark tour")]


async def published(client: Client, values: list[bytes]) -> tuple[str, str]:
    topic, topic_id = await client.create()
    records = [produce.PublishRecord(value=value) for value in values]
    await client.produce.Publish(produce.PublishRequest(topic=topic, records=records), timeout=TIMEOUT)
    return topic, topic_id


async def read(folder: Path, cluster: Cluster) -> tuple[list[str], list[dict[str, Any]]]:
    """Reads three topics: one without text, one with a deleted start, one with an end that never existed."""
    async with connected(cluster.address) as client:
        text, _ = await published(client, [b"0", b"1", b"\xff", b"3"])
        cut, topic_id = await published(client, [b"0", b"1"])
        await client.publish(cut, ["2", "3", "4"])  # whose batch begins before the first stored offset
        part = leader.DeleteRecordsRequest.Partition(topic_id=topic_id, partition=0, offset=3)
        await client.admin.DeleteRecords(leader.DeleteRecordsRequest(partitions=[part]), timeout=TIMEOUT)
        short, _ = await published(client, [b"0", b"1"])
    arguments = (cluster.address, f"{text}:1:2", f"{cut}:1:4", f"{short}:1:7")
    with running("ranges", folder / "ranges", *arguments) as program:
        return [text, cut, short], await asyncio.to_thread(program.wait_for_value, "read")


async def test_ranges_are_read_except_for_missing_records(spark_server: Cluster, tmp_path: Path) -> None:
    (_, cut, short), (text, after_cut, beyond) = await read(tmp_path, spark_server)
    # A range is cut out of its batches.
    assert list(text.values()) == [[[1, "1"], [2, "\ufffd"]]] * 3
    # Records that retention removed are reported, or skipped.
    assert f"Offsets 1 to 2 of {cut}-0 (2) are no longer in the log" in after_cut["strict"]
    assert "failOnDataLoss=false" in after_cut["strict"]
    assert after_cut["lenient"] == after_cut["committed"] == [[3, "3"], [4, "4"]]
    # So are offsets that the log never had.
    assert f"Offsets 2 to 7 of {short}-0" in beyond["strict"]
    assert beyond["lenient"] == [[1, "1"]]
