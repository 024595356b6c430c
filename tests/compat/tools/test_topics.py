"""kafka-topics, kafka-get-offsets, kafka-delete-records, kafka-log-dirs."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.compat.tools.conftest import Tools
from tests.support.client import unique


def test_topic_is_created_altered_and_deleted(tools: Tools) -> None:
    topic = unique("topic")
    named = ("--topic", topic)
    made = tools(
        "kafka-topics", "--create", *named, "--partitions", "2", "--replication-factor", "1",
        "--config", "retention.ms=100000",
    )  # fmt: skip
    assert made.lines == [f"Created topic {topic}."]
    assert topic in tools("kafka-topics", "--list").lines
    assert tools("kafka-topics", "--alter", *named, "--partitions", "3").lines == []
    head, *partitions = tools("kafka-topics", "--describe", *named).lines
    facts = dict(part.split(": ", 1) for part in head.split("\t"))
    assert re.fullmatch(r"[\w-]{22}", facts.pop("TopicId"))
    assert facts == {
        "Topic": topic,
        "PartitionCount": "3",
        "ReplicationFactor": "1",
        "Configs": "retention.ms=100000",
    }
    shape = re.compile(
        rf"\tTopic: {topic}\tPartition: (\d)\tLeader: (\d+)\tReplicas: \2\tIsr: \2\tElr: \tLastKnownElr: "
    )
    assert [match[1] for match in map(shape.fullmatch, partitions) if match] == ["0", "1", "2"]
    assert tools("kafka-topics", "--delete", *named).lines == []
    assert topic not in tools("kafka-topics", "--list").lines


def test_errors_are_printed(tools: Tools) -> None:
    topic = tools.topic(2)
    prefix = "Error while executing topic command : "

    def rejected(*arguments: str) -> str:
        ran = tools.attempt("kafka-topics", *arguments)
        assert ran.code == 1
        return ran.lines[0].removeprefix(prefix)

    assert rejected("--create", "--topic", topic) == f"Topic '{topic}' already exists."
    assert rejected("--create", "--topic", unique("topic"), "--replication-factor", "3").startswith(
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
        "because only 1 broker(s) are registered"
    )
    assert rejected("--alter", "--topic", topic, "--partitions", "1") == (
        f"The topic {topic} currently has 2 partition(s); 1 would not be an increase."
    )
    assert rejected("--describe", "--topic", "nowhere") == "Topic 'nowhere' does not exist as expected"


def test_offsets_are_listed_records_deleted_and_sizes_printed(tools: Tools, tmp_path: Path) -> None:
    topic = tools.topic(2)
    tools("kafka-producer-perf-test", "--topic", topic, "--num-records", "100", "--record-size", "50",
          "--throughput", "-1", "--command-property", "partitioner.ignore.keys=true")  # fmt: skip
    ends = dict(line.rsplit(":", 1) for line in tools("kafka-get-offsets", "--topic", topic).lines)
    assert ends.keys() == {f"{topic}:0", f"{topic}:1"}
    assert sum(map(int, ends.values())) == 100
    filled = max(ends, key=lambda name: int(ends[name]))
    wanted = {"topic": topic, "partition": int(filled[-1]), "offset": 7}
    (tmp_path / "wanted.json").write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    deleted = tools("kafka-delete-records", "--offset-json-file", str(tmp_path / "wanted.json"))
    assert deleted.lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {topic}-{filled[-1]}\tlow_watermark: 7",
    ]
    earliest = tools("kafka-get-offsets", "--topic", topic, "--time", "earliest").lines
    assert sorted(earliest) == sorted(f"{name}:{7 if name == filled else 0}" for name in ends)
    *_, report = tools("kafka-log-dirs", "--describe", "--topic-list", topic).lines
    ((place,),) = (broker["logDirs"] for broker in json.loads(report)["brokers"])
    assert place["error"] is None
    sizes = {one["partition"]: one["size"] for one in place["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-{filled[-1]}"] > 50
