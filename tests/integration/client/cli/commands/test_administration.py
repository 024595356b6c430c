from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest

from sharebroker import Record, ShareConsumer
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.integration.client.cli.commands.commands import MAIN, create_group
from tests.integration.client.cli.commands.conftest import Command
from tests.support.client import unique
from tests.testkit.brokers import Cluster


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
    assert sharebroker("topics", "delete", name, "--yes", "--json").data == {"deleted": [name]}
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
        (("topics", "delete", "nowhere", "--yes"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("groups", "describe", "absent"), ErrorCode.GROUP_ID_NOT_FOUND),
        (("groups", "offsets", "absent"), ErrorCode.GROUP_ID_NOT_FOUND),
        (
            ("groups", "reset", "absent", "-t", "t", "--to", "earliest", "--execute"),
            ErrorCode.GROUP_ID_NOT_FOUND,
        ),
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


def test_group_offsets_are_reset_listed_and_deleted(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
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


def test_topic_is_described_with_settings_and_bytes(sharebroker: Command, group: str) -> None:
    name = f"t-{group}"
    sharebroker("topics", "create", name, "-p", "2", "-c", "retention.ms=7200000")
    sharebroker("produce", name, stdin=b"x" * 5_000 + b"\n")
    shown = sharebroker("topics", "describe", name, "--json").data
    settings = {one["name"]: (one["value"], one["set"]) for one in shown["settings"]}
    assert settings["retention.ms"] == ("7200000", True)
    assert settings["max.message.bytes"][1] is False
    sizes = sorted(row["bytes"] for row in shown["partitions"])
    assert sizes[0] == 0
    assert 5_000 < sizes[1] < 6_000
    readable = sharebroker("topics", "describe", name).out
    assert "retention.ms" in readable
    assert "BYTES" in readable


def test_groups_are_listed_with_members_lag_and_age(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    _three_records(sharebroker, topic)
    with ShareConsumer(server, group, [topic]) as consumer:
        held = consumer.poll(20)
        assert held
        (row,) = [row for row in sharebroker("groups", "list", "--json").data if row["group"] == group]
        assert row.pop("oldest_age_s") >= 0
        assert row == {
            "group": group,
            "type": "share",
            "state": "Stable",
            "members": 1,
            "lag": 3,
            "ready": 3 - len(held),
            "locked": len(held),
        }
    assert group in sharebroker("groups", "list").out


def _three_records(sharebroker: Command, topic: str) -> int:
    """Publishes three records with one key; returns their partition."""
    records = b'{"id": 1}\n' * 3
    assert sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=records).code == 0
    partitions = sharebroker("topics", "describe", topic, "--json").data["partitions"]
    return [row["end_offset"] for row in partitions].index(3)


def _starts(sharebroker: Command, group: str) -> dict[int, int]:
    rows = sharebroker("groups", "offsets", group, "--json").data
    return {row["partition"]: row["start_offset"] for row in rows}


def test_reset_changes_nothing_without_execute(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    full = _three_records(sharebroker, topic)
    reset = ("groups", "reset", group, "--topic", topic, "--partition", str(full))
    shown = sharebroker(*reset, "--to", "2", "--json")
    row = {"topic": topic, "partition": full, "old_offset": 0, "new_offset": 2, "records": -2}
    assert (shown.data, shown.err) == ([row], "")
    assert "Add --execute" in sharebroker(*reset, "--to", "2").err
    assert _starts(sharebroker, group) == {full: 0, 1 - full: 0}
    done = sharebroker(*reset, "--to", "2", "--execute")
    assert (done.out.split()[:5], done.err) == (["TOPIC", "PARTITION", "OLD", "NEW", "RECORDS"], "")
    assert _starts(sharebroker, group) == {full: 2, 1 - full: 0}
    again = sharebroker(*reset, "--to", "earliest", "--json").data
    assert [(row["old_offset"], row["new_offset"], row["records"]) for row in again] == [(2, 0, 2)]


def test_reset_beyond_the_log_is_rejected(server: str, sharebroker: Command, topic: str, group: str) -> None:
    create_group(server, topic, group)
    full = _three_records(sharebroker, topic)
    reset = ("groups", "reset", group, "--topic", topic, "--execute", "--to")
    for ran, offset, number, end in (
        (sharebroker(*reset, "2"), 2, 1 - full, 0),
        (sharebroker(*reset, "1200", "--partition", str(full)), 1200, full, 3),
    ):
        assert isinstance(ran.failure, KafkaError)
        assert ran.failure.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert ran.failure.message == (
            f"Offset {offset} is outside partition {number} of topic {topic}, which has offsets 0 to {end}."
        )
    assert _starts(sharebroker, group) == {0: 0, 1: 0}


def test_topic_is_not_deleted_without_a_terminal_or_yes(sharebroker: Command, topic: str) -> None:
    ran = sharebroker("topics", "delete", topic, stdin=b"y\n")
    assert (ran.code, "--yes" in ran.err) == (2, True)
    assert topic in sharebroker("topics", "list").out


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_delete_prompts_in_a_terminal(
    server: str, sharebroker: Command, topic: str, typed: bytes, code: int
) -> None:
    terminal, theirs = pty.openpty()
    try:
        os.write(terminal, typed)
        ran = subprocess.run(
            [*MAIN, "topics", "delete", topic, "--server", server],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(theirs)
    assert ran.returncode == code
    assert f"Delete {topic} with all records?" in ran.stderr
    assert (topic in sharebroker("topics", "list").out) == (code == 1)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_state_show_without_state_fails(
    sharebroker: Command, topic: str, group: str, options: tuple[str, ...]
) -> None:
    shown = sharebroker("state", "show", group, topic, "1", *options)
    assert (shown.code, shown.out) == (1, "")
    assert isinstance(shown.failure, KafkaError)
    assert shown.failure.message == f"Group {group} has no state in partition 1 of topic {topic}."


def test_group_config_is_set_and_reset(sharebroker: Command, group: str) -> None:
    rows = sharebroker("groups", "config", group, "--set", "share.auto.offset.reset=earliest", "--json").data
    assert {"name", "value", "is_default", "documentation"} == set(rows[0])
    changed = {row["name"]: row["value"] for row in rows if not row["is_default"]}
    assert changed == {"share.auto.offset.reset": "earliest"}
    unset = sharebroker("groups", "config", group, "--unset", "share.auto.offset.reset", "--json").data
    assert all(row["is_default"] for row in unset)


def test_state_show_prints_log_and_replayed_state(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    partition = str(_three_records(sharebroker, topic))
    reset = ("groups", "reset", group, "--topic", topic, "--partition", partition, "--to", "2")
    assert sharebroker(*reset, "--execute").code == 0
    shown = sharebroker("state", "show", group, topic, partition, "--json").data
    assert shown["consistent"]
    assert [record["kind"] for record in shown["records"]] == ["checkpoint"]
    assert (shown["folded"]["start_offset"], shown["records"][0]["start_offset"]) == (2, 2)
    readable = sharebroker("state", "show", group, topic, partition).out
    assert "In the log" in readable
    assert "Replayed" in readable


def test_failure_is_one_line_and_code_1(server: str) -> None:
    arguments = ["topics", "describe", "nowhere", "--server", server]
    ran = subprocess.run([*MAIN, *arguments], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "sharebroker: There is no topic 'nowhere'. `sharebroker topics list` lists the topics.\n"
    )


def test_unreachable_server_is_one_line_and_code_1() -> None:
    arguments = ["topics", "list", "--server", "127.0.0.1:1"]
    ran = subprocess.run([*MAIN, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "sharebroker serve" in ran.stderr


def test_the_port_of_kafka_clients_is_named(cluster: Cluster) -> None:
    arguments = ["topics", "list", "--server", cluster.kafka]
    ran = subprocess.run([*MAIN, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert f"{cluster.kafka} did not respond in gRPC: the port may be that of Kafka clients" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("topics", "describe", "nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("groups", "offsets", "absent"), 1, "GROUP_ID_NOT_FOUND"),
        (("state", "show", "absent", "nowhere", "0"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("verify", "absent", "nowhere"), 2, "GROUP_ID_NOT_FOUND"),
        (("groups", "reset", "g"), 2, "INVALID_USAGE"),
        (("topics", "list", "--bogus"), 2, "INVALID_USAGE"),
        (("nonsense",), 2, "INVALID_USAGE"),
    ],
)
def test_with_json_a_failure_is_a_json_document(
    server: str, arguments: tuple[str, ...], code: int, error: str
) -> None:
    words = [*MAIN, *arguments, "--json", *([] if error == "INVALID_USAGE" else ["--server", server])]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (code, "")
    failure = json.loads(ran.stderr)
    assert failure["error"] == error
    assert failure["message"]


def _retry(server: str, sharebroker: Command, topic: str, group: str, partition: int) -> None:
    """Retries the failed records 0 and 2; another group does not receive the copies."""
    other = unique("other")
    create_group(server, topic, other)
    place = (group, topic, str(partition))
    checked = sharebroker("groups", "retry", *place, "0")
    assert "Nothing is changed" in checked.err
    refused = sharebroker("groups", "retry", *place, "1", "9", "--execute", "--json")
    assert refused.code == 1
    assert [row["error"].split(":")[0] for row in refused.data] == ["RESOURCE_NOT_FOUND"] * 2
    assert sharebroker("groups", "retry", group, topic).code == 2
    for wrong in (
        (unique("no"), topic, "0", "0"),
        (unique("no"), topic, "--all"),
        (group, topic, "7", "--all"),
    ):
        assert isinstance(sharebroker("groups", "retry", *wrong).failure, KafkaError), wrong
    (row,) = sharebroker("groups", "retry", *place, "0", "--execute", "--request-id", "a", "--json").data
    assert (row["first_offset"], row["copy_offset"], row["error"]) == (0, 3, None)
    (again,) = sharebroker("groups", "retry", *place, "0", "--execute", "--request-id", "a", "--json").data
    assert again["copy_offset"] == 3, "a repeated request copies nothing"
    rows = sharebroker("groups", "retry", group, topic, "--all", "--execute", "--json").data
    assert [(row["first_offset"], row["copy_offset"]) for row in rows] == [(2, 4)]
    assert sharebroker("groups", "retry", group, topic, "--all", "--json").data == []
    with ShareConsumer(server, group, [topic]) as consumer:
        found: list[Record] = []
        while len(found) < 2:
            found += consumer.poll(timeout=20)
        assert [(record.offset, record.delivery_count) for record in found] == [(3, 1), (4, 1)]
        headers = dict(found[0].headers)
        assert headers["sharebroker.for.group"] == group.encode()
        assert headers["sharebroker.retry.of"] == f"{topic}/{partition}/0".encode()
        for record in found:
            record.accept()
        consumer.commit()
    with ShareConsumer(server, other, [topic]) as consumer:
        received: list[int] = []
        while len(received) < 3:
            for record in consumer.poll(timeout=20):
                received.append(record.offset)
                record.accept()
        assert sorted(received) == [0, 1, 2]
        assert not consumer.poll(timeout=0.5)
    entries = sharebroker("groups", "failed", group, "--json").data["entries"]
    assert [run["copy_offset"] for row in entries for run in row["retried"]] == [3, 4]
    assert "RETRIED" in sharebroker("groups", "failed", group).out
    verified = sharebroker("verify", other, topic, "--offsets", "--json").data
    assert verified["well"]
    fates = [run["fate"] for run in verified["partitions"][partition]["offsets"]]
    assert fates[-1] == "for_others"


def test_failed_records_are_listed(server: str, sharebroker: Command, topic: str, group: str) -> None:
    create_group(server, topic, group)
    full = _three_records(sharebroker, topic)
    assert sharebroker("groups", "failed", group).err == f"Group {group} has no failed records.\n"
    sharebroker("groups", "config", group, "--set", "share.delivery.count.limit=2")
    with ShareConsumer(server, group, [topic]) as consumer:
        rejected = released = 0
        while rejected < 1 or released < 2:
            for record in consumer.poll(timeout=20):
                if record.offset == 0:
                    record.reject("no such account")
                    rejected += 1
                elif record.offset == 2:
                    record.release(0, reason="no connection")
                    released += 1
                else:
                    record.accept()
            consumer.commit()
        member = consumer.member_id
    ran = sharebroker("groups", "failed", group, "--topic", topic, "--json")
    entries = ran.data["entries"]
    assert (ran.data["group"], ran.data["dropped"]) == (group, 0)
    assert [
        (row["topic"], row["partition"], row["first_offset"], row["last_offset"], row["member_id"])
        for row in entries
    ] == [(topic, full, 0, 0, member), (topic, full, 2, 2, member)]
    assert [(row["disposition"], row["delivery_count"], row["reason"]) for row in entries] == [
        ("rejected", 1, "no such account"),
        ("exhausted", 2, "no connection"),
    ]
    shown = sharebroker("groups", "failed", group).out
    assert all(text in shown for text in ("DISPOSITION", "exhausted", "no such account"))
    verified = sharebroker("verify", group, topic, "--offsets", "--json").data["partitions"][full]
    assert [run["fate"] for run in verified["offsets"]] == ["rejected", "passed", "exhausted"]
    _retry(server, sharebroker, topic, group, full)
    sharebroker("groups", "config", group, "--set", "share.failed.records.max=1")
    assert sharebroker("groups", "delete", group, "--topic", topic).code == 0
    create_group(server, topic, group)
    assert sharebroker("groups", "failed", group, "--json").data["entries"] == []
