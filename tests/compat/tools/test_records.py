"""The tools that produce and consume: console, performance, verifiable."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.compat.tools.conftest import Tools

KEYED = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")


def events(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_console_producers_records_reach_the_share_consumer(tools: Tools) -> None:
    topic, group = tools.topic(), tools.group()
    headers = ("--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL")
    written = "h1:x,h2:y\tk1:v1\nh:z\tk2:NULL\nh:z\tNULL:v3\n"
    tools("kafka-console-producer", "--topic", topic, *KEYED, *headers, stdin=written)
    shown = ("key", "headers", "offset", "delivery", "timestamp")
    printing = [word for name in shown for word in ("--formatter-property", f"print.{name}=true")]
    read = tools(
        "kafka-console-share-consumer", "--topic", topic, "--group", group, "--max-messages", "3", *printing
    )
    rows = [re.sub(r"CreateTime:\d{13}", "T", line).split("\t") for line in read.lines]
    assert rows == [
        ["T", "Offset:0", "Delivery:1", "h1:x,h2:y", "k1", "v1"],
        ["T", "Offset:1", "Delivery:1", "h:z", "k2", "null"],
        ["T", "Offset:2", "Delivery:1", "h:z", "null", "v3"],
    ]
    assert "Processed a total of 3 messages" in read.err
    nothing = tools.attempt(
        "kafka-console-share-consumer", "--topic", topic, "--group", group, "--timeout-ms", "1000"
    )
    assert nothing.lines == []


def test_console_share_consumer_rejects_and_releases(tools: Tools) -> None:
    topic, group = tools.topic(), tools.group()
    tools("kafka-console-producer", "--topic", topic, stdin="one\ntwo\n")
    of_group = ("--topic", topic, "--group", group)
    delivered = ("--formatter-property", "print.delivery=true")
    released = tools("kafka-console-share-consumer", *of_group, "--max-messages", "2", "--release")
    assert released.lines == ["one", "two"]
    rejected = tools("kafka-console-share-consumer", *of_group, "--max-messages", "2", "--reject", *delivered)
    assert rejected.lines == ["Delivery:2\tone", "Delivery:2\ttwo"]
    offsets = tools("kafka-share-groups", "--describe", "--group", group).lines
    assert offsets[1].split() == [group, topic, "0", "2", "0"]


def test_console_consumer_reads_a_partition(tools: Tools) -> None:
    topic = tools.topic(2)
    tools("kafka-console-producer", "--topic", topic, *KEYED, stdin="k1:1\nk2:2\nk3:3\nk4:4\n")
    read = tools(
        "kafka-console-consumer", "--topic", topic, "--partition", "1", "--offset", "earliest",
        "--max-messages", "2", "--formatter-property", "print.key=true",
    )  # fmt: skip
    assert read.lines == ["k1\t1", "k2\t2"]


def test_perf_tools_work_with_every_compression(tools: Tools) -> None:
    topic, group = tools.topic(2), tools.group()
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        sent = tools(
            "kafka-producer-perf-test", "--topic", topic, "--num-records", "4000", "--record-size", "100",
            "--throughput", "-1", "--command-property", f"compression.type={compression}",
        )  # fmt: skip
        assert re.match(r"4000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), ", sent.lines[-1])
    read = tools(
        "kafka-share-consumer-perf-test", "--topic", topic, "--group", group, "--num-records", "20000",
        "--threads", "2",
    )  # fmt: skip
    head, row = read.lines
    found = dict(zip(head.split(", "), row.split(", "), strict=True))
    assert int(found["data.consumed.in.nMsg"]) == 20_000


def test_verifiable_producers_records_reach_the_share_consumer(tools: Tools) -> None:
    topic, group = tools.topic(), tools.group()
    reports = events(
        tools("kafka-verifiable-producer", "--topic", topic, "--max-messages", "5", "--acks", "-1").lines
    )
    sent = [(one["value"], one["offset"]) for one in reports if one["name"] == "producer_send_success"]
    assert sent == [(str(number), number) for number in range(5)]
    assert (reports[-1]["name"], reports[-1]["acked"]) == ("tool_data", 5)
    reports = events(
        tools(
            "kafka-verifiable-share-consumer", "--topic", topic, "--group-id", group, "--max-messages", "5",
            "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest",
        ).lines
    )  # fmt: skip
    assert [one["name"] for one in reports] == [
        "startup_complete",
        "offset_reset_strategy_set",
        "records_consumed",
        "offsets_acknowledged",
        "shutdown_complete",
    ]
    assert [part["offsets"] for part in reports[2]["partitions"]] == [[0, 1, 2, 3, 4]]
    assert (reports[3]["count"], reports[3]["success"]) == (5, True)
