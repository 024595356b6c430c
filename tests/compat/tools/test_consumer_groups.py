"""Consumer groups by Kafka's tools: consumed, described, reset and deleted."""

from __future__ import annotations

from tests.compat.tools.conftest import Tools
from tests.support.client import unique


def table(lines: list[str]) -> list[list[str]]:
    """Returns the rows of a tool's table, without its header."""
    return [line.split() for line in lines[1:]]


def test_console_consumer_resumes_at_its_offset(tools: Tools) -> None:
    topic, group = tools.topic(), unique("group")
    tools("kafka-console-producer", "--topic", topic, stdin="one\ntwo\nthree\n")
    of_group = ("--topic", topic, "--group", group, "--from-beginning")
    assert tools("kafka-console-consumer", *of_group, "--max-messages", "2").lines == ["one", "two"]
    assert tools("kafka-console-consumer", *of_group, "--max-messages", "1").lines == ["three"]
    described = table(tools("kafka-consumer-groups", "--describe", "--group", group).lines)
    assert [row[:6] for row in described] == [[group, topic, "0", "3", "3", "0"]]
    (state,) = table(tools("kafka-consumer-groups", "--describe", "--group", group, "--state").lines)
    assert (state[0], state[-2:]) == (group, ["Empty", "0"])
    assert table(tools("kafka-consumer-groups", "--describe", "--group", group, "--members").lines) == []


def test_perf_test_reads_every_record(tools: Tools) -> None:
    topic, group = tools.topic(2), unique("group")
    sizes = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    tools("kafka-producer-perf-test", "--topic", topic, *sizes)
    wanted = ("--topic", topic, "--num-records", "2000", "--group", group)
    head, figures = tools("kafka-consumer-perf-test", *wanted, "--timeout", "60000").lines
    row = dict(zip(head.split(", "), figures.split(", "), strict=True))
    assert row["data.consumed.in.nMsg"] == "2000"


def test_offsets_are_moved_and_deleted(tools: Tools) -> None:
    topic, group = tools.topic(), unique("group")
    tools("kafka-console-producer", "--topic", topic, stdin="one\ntwo\nthree\n")
    of_group = ("--group", group, "--topic", topic)
    moved = tools("kafka-consumer-groups", "--reset-offsets", *of_group, "--to-latest", "--execute").lines
    assert table(moved) == [[group, topic, "0", "3"]]
    moved = tools(
        "kafka-consumer-groups", "--reset-offsets", *of_group, "--shift-by", "-2", "--execute"
    ).lines
    assert table(moved) == [[group, topic, "0", "1"]]
    assert group in tools("kafka-consumer-groups", "--list").lines
    (row,) = [line.split() for line in tools("kafka-groups", "--list").lines if line.startswith(group)]
    assert row[1] == "Classic"
    deleted = tools("kafka-consumer-groups", "--delete-offsets", *of_group).lines
    assert table(deleted)[-1] == [topic, "0", "Successful"]
    assert group not in tools("kafka-consumer-groups", "--list").lines


def test_a_group_is_deleted(tools: Tools) -> None:
    topic, group = tools.topic(), unique("group")
    of_group = ("--group", group, "--topic", topic)
    tools("kafka-consumer-groups", "--reset-offsets", *of_group, "--to-earliest", "--execute")
    (done,) = tools("kafka-consumer-groups", "--delete", "--group", group).lines
    assert done == f"Deletion of requested consumer groups ('{group}') was successful."
    deleted = tools("kafka-consumer-groups", "--delete", "--group", group).lines
    assert deleted[-1].endswith("GroupIdNotFoundException: The group id does not exist.")
    (line,) = tools("kafka-consumer-groups", "--describe", "--group", group).lines
    assert line.endswith(f"GroupIdNotFoundException: Group {group} not found.")


def test_perf_test_with_the_new_protocol_is_rejected(tools: Tools) -> None:
    wanted = ("--topic", tools.topic(), "--num-records", "1", "--timeout", "10000")
    ran = tools.attempt("kafka-consumer-perf-test", *wanted, "--command-property", "group.protocol=consumer")
    assert ran.code == 1
    assert "UnsupportedVersionException" in ran.err
