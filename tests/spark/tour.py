"""The input of the tour's program, and its results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from tests.architecture.sources import ROOT
from tests.spark.environment import START_SECONDS, Program, needs_spark, running
from tests.support.client import TIMEOUT, Client, connected
from tests.testkit.brokers import Cluster

PARTITIONS, RECORDS, JUDGED = 3, 400, 12
EVERYTHING: Final[list[Any]] = [
    [p, offset, f"value {offset}"] for p in range(PARTITIONS) for offset in range(RECORDS)
]
"""Partition, offset and value of each record of the topic."""

TOUR: Final = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(3 * START_SECONDS),
    pytest.mark.xdist_group("spark tour"),
]
JSON: Final = [
    b'{"id": 1, "name": "ada", "at": "2026-01-02T03:04:05Z", "on": "2026-01-02", "tags": ["a"], "more": 1}',
    b'{"id": "two"}',
    b'{"id": 3}\n',
    b"no JSON",
    None,
    b'{"id": 6} {"id": 7}',
    b"",
    b'{"name": "\xff"}',
    b"[]",
]
README: Final = ROOT / "libs" / "spark_source" / "README.md"
GOOD: Final = {0, 2, 4}
"""The JSON values that can be read."""


@dataclass
class Tour:
    """The program's reports, and the server's state afterwards."""

    program: Program
    finished: list[set[int]]
    judged: dict[int, int]
    judged_topic: str
    rejected: dict[int, int]
    target: list[str]


async def take_tour(cluster: Cluster, folder: Path) -> Tour:
    """Prepares the data, runs the program, reads the results."""
    async with connected(cluster.address) as client:
        setup, topic_ids = await _prepare(client)
        setup |= {"bootstrap": cluster.address, "folder": str(folder), "readme": str(README)}
        with running("tour", folder / "tour", json.dumps(setup), SPARK_TEST_MASTER="local[2,2]") as program:
            await asyncio.to_thread(program.wait_for_value, "done")
            await asyncio.to_thread(program.ends)
        finished = [
            await client.finished(setup["group"], topic_ids["topic"], index) for index in range(PARTITIONS)
        ]
        judged = await _states(client, setup["judges"], topic_ids["judged"])
        rejected = await _states(client, setup["rejecters"], topic_ids["json"])
        written = await client.acquire_all(await client.group(), setup["target"], 50, "reader")
        return Tour(
            program, finished, judged, setup["judged"], rejected, sorted(record.text for record in written)
        )


async def _prepare(client: Client) -> tuple[dict[str, Any], dict[str, str]]:
    names: dict[str, Any] = {}
    ids: dict[str, str] = {}
    for name, count in {
        "topic": PARTITIONS, "target": 2, "streamed": 2, "empty": 2, "judged": 1, "json": 1, "arrow": 1,
        "once": 1, "twice": 1,
    }.items():  # fmt: skip
        names[name], ids[name] = await client.create(count)
    for name in ("group", "streamers", "judges", "rejecters", "clerks"):
        names[name] = await client.group()
    for partition in range(PARTITIONS):
        records = [
            produce.PublishRecord(
                text=f"value {number}",
                partition=partition,
                key=b"key",
                headers=[share.RecordHeader(key="from", value=b"test")] if number == 7 else [],
            )
            for number in range(RECORDS)
        ]
        request = produce.PublishRequest(topic=names["topic"], records=records)
        await client.produce.Publish(request, timeout=TIMEOUT)
    await client.publish(names["judged"], map(str, range(JUDGED)))
    await _publish(client, names["json"], JSON)
    return names, ids


async def _publish(client: Client, topic: str, values: Sequence[bytes | None]) -> None:
    records = [
        produce.PublishRecord() if value is None else produce.PublishRecord(value=value) for value in values
    ]
    await client.produce.Publish(produce.PublishRequest(topic=topic, records=records), timeout=TIMEOUT)


async def _states(client: Client, group: str, topic_id: str) -> dict[int, int]:
    """Returns the stored delivery state of each offset from the start offset on: 2 accepted, 4 rejected."""
    folded = (await client.inspect(group, topic_id)).folded
    return {
        offset: batch.delivery_state
        for batch in folded.state_batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
