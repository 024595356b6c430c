from __future__ import annotations

import subprocess
import sys

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.integration.client.cli.conftest import Command


def test_topic_is_created_altered_and_deleted(sharebroker: Command, group: str) -> None:
    name = f"t-{group}"
    made = sharebroker("topics", "create", name, "-p", "3", "-c", "retention.ms=1000", "--json").data
    assert (made["name"], made["partitions"], len(made["topic_id"])) == (name, 3, 22)
    assert name in sharebroker("topics", "list").out
    assert sharebroker("topics", "alter", name, "-p", "4").code == 0
    altered = sharebroker("topics", "alter", name, "--unset", "retention.ms", "--json").data
    assert (altered["name"], altered["partitions"]) == (name, 4)
    shown = sharebroker("topics", "describe", name, "--json").data
    assert shown["configs"] == {}
    assert [row["end_offset"] for row in shown["partitions"]] == [0, 0, 0, 0]
    assert sharebroker("topics", "delete", name, "--json").data == {"deleted": [name]}
    assert name not in [row["name"] for row in sharebroker("topics", "list", "--json").data]


def test_describe_is_readable(sharebroker: Command, topic: str) -> None:
    shown = sharebroker("topics", "describe", topic).out
    assert topic in shown
    assert "PARTITION" in shown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("topics", "describe", "nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("topics", "create", "not legal"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("topics", "delete", "nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("groups", "describe", "absent"), ErrorCode.GROUP_ID_NOT_FOUND),
        (("groups", "config", "g", "--set", "share.nonsense=1"), ErrorCode.INVALID_CONFIG),
        (("state", "show", "g", "nowhere", "0"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_administration_errors_are_one_line(
    sharebroker: Command, arguments: tuple[str, ...], code: ErrorCode
) -> None:
    ran = sharebroker(*arguments)
    assert ran.code == 1
    assert isinstance(ran.failure, KafkaError)
    assert ran.failure.code is code


def test_group_offsets_are_reset_listed_and_deleted(sharebroker: Command, topic: str, group: str) -> None:
    reset = ("groups", "reset", group, "--topic", topic, "--to", "earliest")
    assert sharebroker(*reset, "--dry-run").code == 0
    assert group not in sharebroker("groups", "list").out
    assert sharebroker(*reset).code == 0
    rows = sharebroker("groups", "offsets", group, "--json").data
    assert [(row["topic"], row["partition"], row["start_offset"], row["lag"]) for row in rows] == [
        (topic, 0, 0, 0),
        (topic, 1, 0, 0),
    ]
    facts = sharebroker("groups", "describe", group, "--json").data
    assert (facts["state"], facts["members"], facts["topics"]) == ("Empty", 0, [topic])
    assert sharebroker("groups", "delete", group, "--topic", topic).code == 0
    assert sharebroker("groups", "offsets", group, "--json").data == []
    assert sharebroker("groups", "delete", group, "--json").data == {"group": group, "deleted": "all"}


def _three_records(sharebroker: Command, topic: str) -> int:
    """Publishes three records with one key; returns their partition."""
    records = b'{"id": 1}\n' * 3
    assert sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=records).code == 0
    partitions = sharebroker("topics", "describe", topic, "--json").data["partitions"]
    return [row["end_offset"] for row in partitions].index(3)


def test_reset_is_limited_to_the_log(sharebroker: Command, topic: str, group: str) -> None:
    full = _three_records(sharebroker, topic)
    reset = sharebroker("groups", "reset", group, "--topic", topic, "--to", "2", "--json")
    assert {row["partition"]: row["start_offset"] for row in reset.data} == {full: 2, 1 - full: 0}
    assert reset.err.splitlines() == [
        f"Offset 2 is outside partition {1 - full} of topic {topic}, which has offsets 0 to 0: using 0."
    ]
    beyond = sharebroker("groups", "reset", group, "--topic", topic, "--partition", str(full), "--to", "1200")
    assert "has offsets 0 to 3: using 3" in beyond.err
    rows = sharebroker("groups", "offsets", group, "--json").data
    assert {row["partition"]: (row["start_offset"], row["lag"]) for row in rows} == {
        full: (3, 0),
        1 - full: (0, 0),
    }


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_state_show_without_state_fails(
    sharebroker: Command, topic: str, group: str, options: tuple[str, ...]
) -> None:
    shown = sharebroker("state", "show", group, topic, "1", *options)
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == f"Group {group} has no state in partition 1 of topic {topic}.\n"


def test_group_config_is_set_and_reset(sharebroker: Command, group: str) -> None:
    rows = sharebroker("groups", "config", group, "--set", "share.auto.offset.reset=earliest", "--json").data
    assert {"name", "value", "is_default", "documentation"} == set(rows[0])
    changed = {row["name"]: row["value"] for row in rows if not row["is_default"]}
    assert changed == {"share.auto.offset.reset": "earliest"}
    unset = sharebroker("groups", "config", group, "--unset", "share.auto.offset.reset", "--json").data
    assert all(row["is_default"] for row in unset)


def test_state_show_prints_log_and_replayed_state(sharebroker: Command, topic: str, group: str) -> None:
    partition = str(_three_records(sharebroker, topic))
    assert sharebroker("groups", "reset", group, "--topic", topic, "--to", "2").code == 0
    shown = sharebroker("state", "show", group, topic, partition, "--json").data
    assert shown["consistent"]
    assert [record["kind"] for record in shown["records"]] == ["checkpoint"]
    assert (shown["folded"]["start_offset"], shown["records"][0]["start_offset"]) == (2, 2)
    readable = sharebroker("state", "show", group, topic, partition).out
    assert "In the log" in readable
    assert "Replayed" in readable


def test_failure_is_one_line_and_code_1(server: str) -> None:
    command = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
    arguments = ["topics", "describe", "nowhere", "--server", server]
    ran = subprocess.run(command + arguments, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "sharebroker: There is no topic 'nowhere'. `sharebroker topics list` lists the topics.\n"
    )


def test_unreachable_server_is_one_line_and_code_1() -> None:
    command = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
    arguments = ["topics", "list", "--server", "127.0.0.1:1"]
    ran = subprocess.run(command + arguments, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "sharebroker serve" in ran.stderr
