"""Steps that tests of several commands share."""

from __future__ import annotations

import json
import sys

from sharebroker import Admin, TopicPartition
from tests.integration.client.cli.commands.conftest import Command

LINES = b"".join(b"line %d\n" % number for number in range(10))

MAIN = [sys.executable, "-c", "from sharebroker.cli import main; main()"]


def taken(
    sharebroker: Command, topic: str, group: str, most: int, response: str = "--accept"
) -> list[dict[str, object]]:
    """Returns the next records of a group, at most `most`."""
    options = ("--max", str(most), "--timeout", "20", "--from-beginning", "--json", response)
    ran = sharebroker("consume", topic, "-g", group, *options)
    assert ran.code == 0, ran
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert len(records) == most
    return records


def create_group(server: str, topic: str, group: str) -> None:
    """Creates a group without members that starts at offset 0 in both partitions of the topic."""
    with Admin(server) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, number): 0 for number in range(2)})


def lag(sharebroker: Command, group: str) -> int:
    """Returns how many records the group has not finished."""
    return sum(row["lag"] or 0 for row in sharebroker("groups", "offsets", group, "--json").data)
