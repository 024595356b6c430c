"""Kafka's own command line on logs: console consumer, get-offsets, delete-records, log-dirs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sharebroker_server.catalog.topics import OFFSETS_TOPIC, OFFSETS_TOPIC_ID, STATE_TOPIC
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.logs import fetch, fetch_topic, list_offset, values
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient
from tests.support.kafka_tools import Ran, needs_kafka, run_tool

pytestmark = needs_kafka

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"


async def run(harness: Harness, tool: str, *arguments: str) -> Ran:
    words = ("--bootstrap-server", harness.address, *arguments)
    return (await asyncio.to_thread(run_tool, tool, *words)).checked()


async def test_the_console_consumer_reads_a_partition(harness: Harness) -> None:
    at = await harness.readable(records=5)
    where = ("--topic", at.topic, "--partition", "0", "--offset", "2")
    ran = await run(
        harness, CONSOLE, *where, "--max-messages", "3", "--formatter-property", "print.offset=true"
    )
    assert ran.lines == [f"Offset:{n}\trecord {n}" for n in (2, 3, 4)]
    assert "Processed a total of 3 messages" in ran.err


async def test_the_formatter_of_share_state_prints_checkpoints_and_deltas(
    harness: Harness, kafka: KafkaClient
) -> None:
    at = await harness.readable(records=3)
    held = await harness.client.acquire_all(at.group, at.topic, 3, "another")
    await harness.client.acknowledge(at.group, "another", held[1:2])
    await harness.client.acknowledge(at.group, "another", held[2:])
    shard = shard_of(f"{at.group}:{at.topic_id}:0", 50)
    first, end = [(await list_offset(kafka, STATE_TOPIC, t, partition=shard)).offset for t in (-2, -1)]
    where = ("--topic", STATE_TOPIC, "--partition", str(shard), "--offset", "earliest")
    ran = await run(harness, CONSOLE, *where, "--max-messages", str(end - first), "--formatter", FORMATTER)
    records = [one for one in documents(ran.out) if one["key"]["data"]["groupId"] == at.group]
    assert records[0]["key"] == {
        "type": 0,
        "data": {"groupId": at.group, "topicId": at.topic_id, "partition": 0},
    }
    initialised = records[0]["value"]["data"]
    assert (initialised["startOffset"], initialised["stateBatches"]) == (-1, [])
    shown = (await harness.client.inspect(at.group, at.topic_id)).records
    kinds = {"checkpoint": 0, "delta": 1}
    assert [one["key"]["type"] for one in records[-len(shown) :]] == [kinds[one.kind] for one in shown]
    last = records[-1]["value"]["data"]
    assert last["snapshotEpoch"] == shown[-1].checkpoint_epoch
    assert last["deliveryCompleteCount"] == 2
    assert last["stateBatches"] == [
        {"firstOffset": 2, "lastOffset": 2, "deliveryState": 2, "deliveryCount": 1}
    ]


async def test_the_formatter_of_offsets_prints_commits_and_tombstones(
    harness: Harness, kafka: KafkaClient
) -> None:
    at, group = await harness.readable(records=5), unique("consumers")
    of_group = ("--group", group, "--topic", at.topic)
    await run(harness, CONSUMER_GROUPS, "--reset-offsets", *of_group, "--to-offset", "3", "--execute")
    await run(harness, CONSUMER_GROUPS, "--delete-offsets", *of_group)
    shard = shard_of(group, 50)
    start = (await list_offset(kafka, OFFSETS_TOPIC, -2, partition=shard)).offset
    asked = fetch_topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, 18, partition=shard, fetch_offset=start)
    there = (await fetch(kafka, 18, asked)).responses[0].partitions[0].records
    where = ("--topic", OFFSETS_TOPIC, "--partition", str(shard), "--offset", "earliest")
    most = ("--max-messages", str(len(values(there))))
    ran = await run(harness, CONSOLE, *where, *most, "--formatter", OFFSETS_FORMATTER)
    commit, tombstone = (one for one in documents(ran.out) if one["key"]["data"]["group"] == group)
    key = {"type": 1, "data": {"group": group, "topic": at.topic, "partition": 0}}
    assert commit["key"] == tombstone["key"] == key
    assert tombstone["value"] is None
    assert commit["value"]["version"] == 4
    data = commit["value"]["data"]
    assert data.pop("commitTimestamp") > 1_700_000_000_000
    assert data == {"offset": 3, "leaderEpoch": -1, "metadata": "", "topicId": at.topic_id}


def documents(text: str) -> list[dict[str, Any]]:
    """Splits the consecutive JSON documents that the formatter writes."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


@pytest.mark.parametrize(
    ("time", "printed"), [("latest", "{0}:0:5"), ("earliest", "{0}:0:0"), ("0", "{0}:0:0")]
)
async def test_get_offsets_prints_start_and_end(harness: Harness, time: str, printed: str) -> None:
    at = await harness.readable(records=5)
    ran = await run(harness, "org.apache.kafka.tools.GetOffsetShell", "--topic", at.topic, "--time", time)
    assert ran.lines == [printed.format(at.topic)]


async def test_delete_records_moves_the_log_start(harness: Harness, tmp_path: Path) -> None:
    at = await harness.readable(records=5)
    request = {"version": 1, "partitions": [{"topic": at.topic, "partition": 0, "offset": 3}]}
    (tmp_path / "wanted.json").write_text(json.dumps(request))
    tool = "org.apache.kafka.tools.DeleteRecordsCommand"
    ran = await run(harness, tool, "--offset-json-file", str(tmp_path / "wanted.json"))
    assert ran.lines[-1].split() == ["partition:", f"{at.topic}-0", "low_watermark:", "3"]


async def test_log_dirs_prints_sizes(harness: Harness) -> None:
    at = await harness.readable(records=5)
    tool = "org.apache.kafka.tools.LogDirsCommand"
    ran = await run(harness, tool, "--describe", "--topic-list", at.topic)
    [broker] = json.loads(ran.lines[-1])["brokers"]
    [place] = broker["logDirs"]
    [partition] = place["partitions"]
    assert (place["logDir"], place["error"], partition["partition"]) == ("redis", None, f"{at.topic}-0")
    assert partition["size"] > 5 * 60
