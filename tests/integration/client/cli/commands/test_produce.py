"""Publishing from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharebroker import ErrorCode, KafkaError
from sharebroker.cli.reading import BadInputError
from tests.integration.client.cli.commands.commands import LINES, lag, taken
from tests.integration.client.cli.commands.conftest import Command


def test_produced_lines_are_consumed(sharebroker: Command, topic: str, group: str) -> None:
    made = sharebroker("produce", topic, "--header", "source=test", "--json", stdin=LINES)
    assert made.data == {"topic": topic, "records": 10}
    records = taken(sharebroker, topic, group, 10)
    assert sorted(str(record["value"]) for record in records) == LINES.decode().splitlines()
    assert all(record["headers"] == {"source": "test"} for record in records)
    assert lag(sharebroker, group) == 0


def test_lines_have_keys_and_a_partition(
    sharebroker: Command, topic: str, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "visits.txt"
    file.write_text("ada:1\nbob:2\n")
    made = sharebroker("produce", topic, str(file), "--key-separator", ":", "--partition", "1")
    assert made.code == 0, made
    records = taken(sharebroker, topic, group, 2)
    assert sorted((r["key"], r["value"], r["partition"]) for r in records) == [
        ("ada", "1", 1),
        ("bob", "2", 1),
    ]


@pytest.mark.parametrize(
    "options", [["--partition", "2"], ["--key-separator", ""], ["--key-separator", ":", "--format", "csv"]]
)
def test_invalid_options_publish_nothing(sharebroker: Command, topic: str, options: list[str]) -> None:
    assert sharebroker("produce", topic, *options, stdin=b"a:b\n").code == 2
    assert sharebroker("records", "browse", topic, "--json").data == []


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_csv_with_keys_in_every_compression(
    sharebroker: Command, topic: str, group: str, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id,name\n1,a\n2,b\n1,c\n")
    made = sharebroker("produce", topic, str(file), "--key", "id", "--compression", compression)
    assert made.code == 0, made
    records = taken(sharebroker, topic, group, 3)
    by_key = {str(record["key"]): record["partition"] for record in records}
    assert sorted(by_key) == ["1", "2"]
    assert [json.loads(str(r["value"]))["name"] for r in records if r["key"] == "1"] == ["a", "c"]


def test_bad_line_is_named_and_earlier_lines_are_published(
    sharebroker: Command, topic: str, group: str
) -> None:
    ran = sharebroker("produce", topic, "--format", "jsonl", stdin=b'{"a": 1}\nnonsense\n')
    assert ran.code == 1
    assert isinstance(ran.failure, BadInputError)
    assert "Line 2 is not JSON" in str(ran.failure)
    assert "Published 1 record to" in ran.err
    taken(sharebroker, topic, group, 1)
    assert lag(sharebroker, group) == 0


def test_records_may_be_as_large_as_the_topic_allows(sharebroker: Command, group: str) -> None:
    name = f"large-{group}"
    assert sharebroker("topics", "create", name, "-p", "1", "-c", "max.message.bytes=15000000").code == 0
    lines = b"".join(b"%d" % number * 10_000_000 + b"\n" for number in range(3))
    made = sharebroker("produce", name, "--json", stdin=lines)
    assert (made.code, made.data) == (0, {"topic": name, "records": 3})
    ran = sharebroker("produce", name, stdin=b"x" * 17_000_000 + b"\n")
    assert isinstance(ran.failure, KafkaError)
    assert ran.failure.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "15000000 bytes" in ran.failure.message
