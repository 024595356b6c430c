"""The command `dead-letters` on letters of two groups."""

from __future__ import annotations

import json

import pytest

from sharebroker import Producer, ShareConsumer
from sharebroker.cli.commands import dead_letters
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.integration.client.cli.commands.commands import create_group, taken
from tests.integration.client.cli.commands.conftest import Command
from tests.support.client import unique


def publish_letters(
    server: str, letters: str, source: str, group: str, *offsets: int, copy: str = "full"
) -> None:
    """Publishes letters as a server writes them."""
    with Producer(server) as producer:
        for offset in offsets:
            headers: list[tuple[str, bytes | None]] = [
                (f"__dlq.errors.{name}", value.encode())
                for name, value in {
                    "topic": source,
                    "partition": "0",
                    "offset": str(offset),
                    "group": group,
                    "delivery.count": "5",
                    "message": "Offset rejected by client.",
                    "disposition": "CLIENT_REJECTED_NACK",
                    "reason": f"no account {offset}",
                    "copy": copy,
                }.items()
            ]
            copied = copy == "full"
            own: list[tuple[str, bytes | None]] = [("tenant", b"7")] if copied else []
            value = f"letter {offset}".encode() if copied else None
            producer.publish(letters, value, headers=[*headers, *own], partition=0)


def received(server: str, group: str, topic: str, number: int) -> list[bytes]:
    """The values that a group receives, and nothing after them; accepts all."""
    found: list[bytes] = []
    with ShareConsumer(server, group, [topic]) as consumer:
        while len(found) < number:
            for record in consumer.poll(timeout=20):
                found.append(bytes(record.value or b""))
                record.accept()
        assert not consumer.poll(timeout=0.5)
    return sorted(found)


@pytest.fixture
def letters(server: str, sharebroker: Command, topic: str, group: str) -> str:
    """A dead letter topic with three letters of a group, whose records `topic` does not have."""
    name = f"dlq.{group}"
    assert sharebroker("topics", "create", name, "--partitions", "1").code == 0
    create_group(server, topic, group)
    publish_letters(server, name, topic, group, 0, 1, 2)
    return name


def test_letters_are_listed_summarised_and_shown(sharebroker: Command, letters: str, group: str) -> None:
    rows = sharebroker("dead-letters", "list", letters, "--json").data
    assert [(row["offset"], row["reason"], row["value_size"]) for row in rows] == [
        (number, f"no account {number}", 8) for number in range(3)
    ]
    assert "no account 1" in sharebroker("dead-letters", "list", letters, "--reason", "ACCOUNT 1").out
    listed = sharebroker("dead-letters", "list", letters, "--limit", "1")
    assert listed.err == "There are more letters than 1; --limit lists more.\n"
    assert sharebroker("dead-letters", "list", letters, "--limit", "3").err == ""
    assert (
        sharebroker("dead-letters", "list", letters, "--group", "none").err
        == "There are no such dead letters.\n"
    )
    (row,) = sharebroker("dead-letters", "summary", letters, "--json").data
    assert (row["letters"], row["group_id"], row["reason"]) == (3, group, "no account #")
    assert "no account #" in sharebroker("dead-letters", "summary", letters).out
    shown = sharebroker("dead-letters", "show", letters, "0", "1", "--json").data
    assert (shown["value"], shown["headers"], shown["truncated"]) == ("letter 1", {"tenant": "7"}, False)
    missing = sharebroker("dead-letters", "show", letters, "0", "9").failure
    assert isinstance(missing, KafkaError)
    assert missing.code is ErrorCode.RESOURCE_NOT_FOUND


def test_a_group_receives_its_letters_once_and_others_none(
    server: str, sharebroker: Command, letters: str, topic: str, group: str
) -> None:
    other = unique("other")
    create_group(server, topic, other)
    redrive = ("dead-letters", "redrive", letters)
    checked = sharebroker(*redrive)
    assert (checked.code, "Nothing is changed" in checked.err) == (0, True)
    sample = sharebroker(*redrive, "--limit", "1", "--execute", "--json").data
    assert [(row["offset"], row["copy_offset"]) for row in sample["results"]] == [(0, 0)]
    token = sample["next_page_token"]
    rest = sharebroker(*redrive, "--execute", "--from", token, "--json").data
    assert [(row["offset"], row["copy_offset"]) for row in rest["results"]] == [(1, 1), (2, 2)]
    again = sharebroker(*redrive, "--execute", "--json").data
    assert [row["copy_offset"] for row in again["results"]] == [0, 1, 2], "each letter is redriven once"
    assert received(server, group, topic, 3) == [b"letter 0", b"letter 1", b"letter 2"]
    repeated = sharebroker(*redrive, "--limit", "1", "--execute", "--request-id", "again", "--json").data
    assert [row["copy_offset"] for row in repeated["results"]] == [3]
    assert received(server, group, topic, 1) == [b"letter 0"]
    with Producer(server) as producer:
        producer.publish(topic, b"for all", partition=0)
    assert received(server, other, topic, 1) == [b"for all"]


def test_all_groups_receive_letters_that_return_to_the_topic(
    server: str, sharebroker: Command, letters: str, topic: str, group: str
) -> None:
    other, target = unique("other"), unique("target")
    create_group(server, topic, other)
    found = sharebroker("dead-letters", "redrive", letters, "--to", "topic", "--execute", "--json").data
    assert (found["letters"], found["failed"]) == (3, 0)
    for name in (group, other):
        assert received(server, name, topic, 3) == [b"letter 0", b"letter 1", b"letter 2"]
    assert sharebroker("topics", "create", target, "--partitions", "2").code == 0
    create_group(server, target, third := unique("third"))
    shown = sharebroker("dead-letters", "redrive", letters, "--to", target, "--rate", "1000", "--execute")
    assert f"{target}/0" in shown.out
    assert received(server, third, target, 3) == [b"letter 0", b"letter 1", b"letter 2"]


def test_a_letter_without_a_copy_is_redriven_from_its_source(
    server: str, sharebroker: Command, letters: str, topic: str, group: str
) -> None:
    with Producer(server) as producer:
        producer.publish(topic, b"the source", partition=0)
    publish_letters(server, letters, topic, group, 0, 9, copy="off")
    found = sharebroker("dead-letters", "redrive", letters, "--from", "0:3:0", "--execute", "--json")
    assert found.code == 1
    first, second = found.data["results"]
    assert (first["copy_offset"], first["error"]) == (1, None)
    assert second["error"].startswith("RESOURCE_NOT_FOUND: The source is gone")
    assert received(server, group, topic, 2) == [b"the source"] * 2


def test_letters_are_discarded(
    server: str, sharebroker: Command, letters: str, topic: str, group: str
) -> None:
    publish_letters(server, letters, topic, unique("other"), 5)
    discard = ("dead-letters", "discard", letters, "--group", group)
    assert "3 dead letters would be deleted" in sharebroker(*discard).err
    assert sharebroker(*discard, "--execute", "--json").data == {
        "topic": letters,
        "letters": 3,
        "before_offsets": {"0": 3},
    }
    assert [row["offset"] for row in sharebroker("dead-letters", "list", letters, "--json").data] == [3]
    assert sharebroker(*discard).err == "No dead letters would be deleted.\n"
    assert (
        sharebroker("dead-letters", "discard", letters, "--execute").err
        == f"Deleted 1 dead letters of {letters}.\n"
    )


def test_an_interrupted_redrive_prints_how_to_continue(
    sharebroker: Command, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dead_letters, "LETTERS_AT_ONCE", 1)
    monkeypatch.setattr(dead_letters, "pause", interrupt)
    stopped = sharebroker("dead-letters", "redrive", letters, "--execute", "--json")
    assert stopped.code == 3
    assert [row["offset"] for row in json.loads(stopped.out)["results"]] == [0]
    assert "with --from 0:1:3 to continue" in stopped.err


def test_a_group_gets_a_dead_letter_topic(sharebroker: Command, group: str) -> None:
    made = sharebroker("dead-letters", "enable", group, "--partitions", "2", "--json").data
    assert made == {"group": group, "topic": f"dlq.{group}", "created": True, "copy": True}
    again = sharebroker("dead-letters", "enable", group, "--no-copy")
    assert (
        again.err
        == f"Set up the existing topic dlq.{group}; failed records of group {group} go to it from now on.\n"
    )
    values = {row["name"]: row["value"] for row in sharebroker("groups", "config", group, "--json").data}
    assert values["errors.deadletterqueue.topic.name"] == f"dlq.{group}"
    assert values["errors.deadletterqueue.copy.record.enable"] == "false"
    described = sharebroker("topics", "describe", f"dlq.{group}", "--json").data
    assert len(described["partitions"]) == 2
    configs = described["configs"]
    assert configs["errors.deadletterqueue.group.enable"] == "true"


def test_a_dead_letter_topic_without_the_prefix_is_refused(sharebroker: Command, group: str) -> None:
    name = f"letters.{group}"
    refused = sharebroker("dead-letters", "enable", group, "--topic", name).failure
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert "must begin with 'dlq.'" in refused.message
    assert name not in sharebroker("topics", "list").out


def test_a_worker_sets_up_dead_letters(sharebroker: Command, topic: str, group: str) -> None:
    name = f"dlq.{group}"
    assert sharebroker("produce", topic, stdin=b"wrong\n").code == 0
    options = ("--dead-letters", name, "--from-beginning", "--timeout", "1")
    assert sharebroker("work", topic, "-g", group, *options, "--", "sh", "-c", "exit 65").code == 3
    letters = taken(sharebroker, name, f"{group}-letters", 1)
    assert letters[0]["value"] == "wrong"


@pytest.mark.parametrize(
    "option", [("--disposition", "lost"), ("--since", "yesterday"), ("--source-partition", "-1")]
)
def test_invalid_filters_are_rejected(sharebroker: Command, option: tuple[str, str]) -> None:
    assert sharebroker("dead-letters", "list", "dlq", *option).code == 2
