"""Records are shown without consuming them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sharebroker import Admin, ErrorCode, KafkaError, Producer, TopicPartition
from tests.integration.client.cli.commands.commands import create_group, taken
from tests.integration.client.cli.commands.conftest import Command


@pytest.fixture
def filled(server: str, topic: str) -> str:
    """A topic with ten records in each of its two partitions."""
    with Producer(server) as producer:
        for number in range(20):
            headers = [("parity", b"even" if number % 4 < 2 else b"odd")]
            key, value = b"key-%d" % (number // 4), b'{"number": %d}' % number
            producer.send(topic, value, key=key, partition=number % 2, headers=headers)
        producer.flush()
    return topic


def test_record_is_shown_by_offset(sharebroker: Command, filled: str) -> None:
    shown = sharebroker("records", "peek", filled, "1", "3", "--json").data
    assert shown.pop("timestamp_ms") > 0
    assert shown == {
        "topic": filled,
        "partition": 1,
        "offset": 3,
        "key": "key-1",
        "headers": {"parity": "odd"},
        "value": '{"number": 7}',
    }
    readable = sharebroker("records", "peek", filled, "1", "3").out
    assert '{"number": 7}' in readable
    assert "parity=odd" in readable


@pytest.mark.parametrize("offset", ["10", "99"])
def test_absent_record_is_an_error(sharebroker: Command, filled: str, offset: str) -> None:
    ran = sharebroker("records", "peek", filled, "0", offset)
    assert isinstance(ran.failure, KafkaError)
    assert ran.failure.code in (ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert ran.code == 1


@pytest.mark.parametrize(
    ("options", "places"),
    [
        (["--limit", "3"], [(0, 0), (0, 1), (0, 2)]),
        (["--partition", "1", "--from", "8"], [(1, 8), (1, 9)]),
        (["--from", "4", "--until", "5"], [(0, 4), (1, 4)]),
        (["--key", "key-2"], [(0, 4), (0, 5), (1, 4), (1, 5)]),
        (["--header", "parity=odd", "--limit", "2"], [(0, 1), (0, 3)]),
        (["--header", "parity", "--from", "9"], [(0, 9), (1, 9)]),
        (["--key", "zoe"], []),
        (["--from", "latest"], []),
    ],
)
def test_records_are_selected(
    sharebroker: Command, filled: str, options: list[str], places: list[tuple[int, int]]
) -> None:
    shown = sharebroker("records", "browse", filled, "--json", *options).data
    assert [(row["partition"], row["offset"]) for row in shown] == places


def test_records_are_selected_by_time(sharebroker: Command, filled: str) -> None:
    before = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    after = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert len(sharebroker("records", "browse", filled, "--json", "--from", before).data) == 20
    assert sharebroker("records", "browse", filled, "--json", "--from", after).data == []
    assert sharebroker("records", "browse", filled, "--json", "--until", before).data == []


def test_deleted_records_are_skipped(server: str, sharebroker: Command, filled: str) -> None:
    with Admin(server) as admin:
        admin.delete_records({TopicPartition(filled, 0): 8})
    shown = sharebroker("records", "browse", filled, "--partition", "0", "--json").data
    assert [row["offset"] for row in shown] == [8, 9]
    failure = sharebroker("records", "peek", filled, "0", "3").failure
    assert isinstance(failure, KafkaError)
    assert failure.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_shown_records_are_still_delivered(
    server: str, sharebroker: Command, filled: str, group: str
) -> None:
    create_group(server, filled, group)
    sharebroker("records", "browse", filled)
    sharebroker("records", "peek", filled, "0", "0")
    records = taken(sharebroker, filled, group, 20)
    assert {record["delivery_count"] for record in records} == {1}
