"""kafka-share-groups and kafka-groups: an operator's work with share groups, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.compat.tools.conftest import Tools
from tests.support.client import unique

RECORDS = "k1:1\nk2:2\nk3:3\nk4:4\n"
KEYED = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")


def table(lines: Sequence[str]) -> list[dict[str, str]]:
    """Returns rows by the names of their columns, sorted: the tools do not sort them."""
    names, *rows = [re.sub(r" +\(", "(", line).split() for line in lines]
    return [dict(zip(names, row, strict=True)) for row in sorted(rows)]


@pytest.fixture(scope="module")
def topic(tools: Tools) -> str:
    """Creates two partitions with two records each."""
    name = tools.topic(2)
    tools("kafka-console-producer", "--topic", name, *KEYED, stdin=RECORDS)
    return name


def test_group_is_described_with_and_without_a_member(tools: Tools, topic: str) -> None:
    group = tools.group()
    of_group = ("--describe", "--group", group)
    with tools.running("kafka-console-share-consumer", "--topic", topic, "--group", group) as output:
        assert sorted(output.readline() for _ in range(4)) == ["1\n", "2\n", "3\n", "4\n"]
        (member,) = table(tools("kafka-share-groups", *of_group, "--members").lines)
        (state,) = table(tools("kafka-share-groups", *of_group, "--state").lines)
    assert (member["GROUP"], member["HOST"], member["ASSIGNMENT"]) == (group, "/127.0.0.1", f"{topic}:0,1")
    assert member["CLIENT-ID"] == "console-share-consumer"
    assert re.fullmatch(r"[\w-]{22}", member["CONSUMER-ID"])
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
    assert state["COORDINATOR(ID)"].startswith(f"{tools.address}(")
    empty = tools("kafka-share-groups", *of_group, "--members")
    assert empty.err.strip() == f"Share group '{group}' has no active members."
    offsets = table(tools("kafka-share-groups", *of_group, "--verbose").lines)
    assert [(row["PARTITION"], row["START-OFFSET"], row["LAG"]) for row in offsets] == [
        ("0", "2", "0"),
        ("1", "2", "0"),
    ]
    assert {row["TOPIC"] for row in offsets} == {topic}
    listed = {
        row["GROUP"]: row["STATE"] for row in table(tools("kafka-share-groups", "--list", "--state").lines)
    }
    assert listed[group] == "Empty"


def test_offsets_are_reset_and_deleted_with_their_group(tools: Tools, topic: str) -> None:
    group = unique("group")
    reset = ("--reset-offsets", "--group", group)

    def start_offsets() -> list[tuple[str, str, str]]:
        rows = table(tools("kafka-share-groups", "--describe", "--group", group).lines)
        return [(row["PARTITION"], row["START-OFFSET"], row["LAG"]) for row in rows]

    planned = table(tools("kafka-share-groups", *reset, "--topic", topic, "--to-latest", "--dry-run").lines)
    assert [(row["PARTITION"], row["NEW-OFFSET"]) for row in planned] == [("0", "2"), ("1", "2")]
    assert group not in tools("kafka-share-groups", "--list").lines
    done = table(tools("kafka-share-groups", *reset, "--topic", topic, "--to-latest", "--execute").lines)
    assert done == planned
    assert start_offsets() == [("0", "2", "0"), ("1", "2", "0")]
    tools("kafka-share-groups", *reset, "--topic", f"{topic}:1", "--to-earliest", "--execute")
    assert start_offsets() == [("0", "2", "0"), ("1", "0", "2")]
    tools(
        "kafka-share-groups", *reset, "--all-topics", "--to-datetime", "2020-01-01T00:00:00.000", "--execute"
    )
    assert start_offsets() == [("0", "0", "2"), ("1", "0", "2")]
    assert table(tools("kafka-groups", "--list").lines).count(
        {"GROUP": group, "TYPE": "Share", "PROTOCOL": "share"}
    )
    deleted = tools("kafka-share-groups", "--delete-offsets", "--group", group, "--topic", topic)
    assert table(deleted.lines) == [{"TOPIC": topic, "STATUS": "Successful"}]
    nothing = tools("kafka-share-groups", "--describe", "--group", group)
    assert nothing.lines == [f"Share group '{group}' has no offset information."]
    deleted = tools("kafka-share-groups", "--delete", "--group", group)
    assert deleted.lines == [f"Deletion of requested share groups ('{group}') was successful."]
    assert group not in tools("kafka-groups", "--list", "--share").out


def test_a_group_with_members_is_not_deleted(tools: Tools, topic: str) -> None:
    group = tools.group()
    with tools.running("kafka-console-share-consumer", "--topic", topic, "--group", group) as output:
        assert output.readline()
        rejected = tools("kafka-share-groups", "--delete", "--group", group).out
        assert "GroupNotEmptyException" in rejected
        moved = tools.attempt(
            "kafka-share-groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest",
            "--execute",
        )  # fmt: skip
        assert (moved.code, moved.err.strip()) == (1, f"Share group '{group}' is not empty.")
