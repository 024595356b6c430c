"""Consumer groups, which are not served: there are none to see, and tools that want one end at once."""

from __future__ import annotations

import pytest

from tests.compat.tools.conftest import Tools
from tests.support.client import unique

PROTOCOLS = ("classic", "consumer")


def test_there_are_no_groups(tools: Tools) -> None:
    assert tools("kafka-consumer-groups", "--list").lines == []
    assert tools("kafka-consumer-groups", "--describe", "--all-groups").lines == []
    for asked in ((), ("--members",), ("--state",)):
        (line,) = tools("kafka-consumer-groups", "--describe", "--group", "none", *asked).lines
        assert line.endswith("GroupIdNotFoundException: Group none not found.")
    deleted = tools("kafka-consumer-groups", "--delete", "--group", "none").lines
    assert deleted[-1].endswith("GroupIdNotFoundException: The group id does not exist.")


def test_offsets_are_neither_set_nor_deleted(tools: Tools) -> None:
    of_group = ("--group", unique("group"), "--topic", tools.topic())
    (line,) = tools("kafka-consumer-groups", "--reset-offsets", *of_group, "--to-earliest", "--execute").lines
    assert line.endswith("The node does not support OFFSET_COMMIT")
    deleted = tools("kafka-consumer-groups", "--delete-offsets", *of_group).lines
    assert deleted[-1].endswith("The node does not support OFFSET_DELETE")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_console_consumer_without_a_partition_ends(tools: Tools, protocol: str) -> None:
    # Why, it writes to its log, which needs jars that Kafka's tools do not bring by themselves.
    topic = tools.topic()
    tools("kafka-console-producer", "--topic", topic, stdin="one\n")
    as_member = ("--from-beginning", "--command-property", f"group.protocol={protocol}")
    read = tools("kafka-console-consumer", "--topic", topic, *as_member)
    assert read.lines == []
    assert "Processed a total of 0 messages" in read.err


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_perf_test_is_told_that_there_are_no_groups(tools: Tools, protocol: str) -> None:
    # It always subscribes; consumers that assign partitions to themselves work.
    wanted = ("--topic", tools.topic(), "--num-records", "1", "--timeout", "10000")
    ran = tools.attempt(
        "kafka-consumer-perf-test", *wanted, "--command-property", f"group.protocol={protocol}"
    )
    assert ran.code == 1
    assert "UnsupportedVersionException" in ran.err
