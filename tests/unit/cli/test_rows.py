"""What administration commands make of the server's answers."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sharebroker.cli.admin import check
from sharebroker.cli.groups import member_row
from sharebroker.cli.options import settings
from sharebroker.cli.state import record_row, runs, side_by_side, state_document
from sharebroker.cli.topics import config_changes, partition_row, topic_row
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1.admin_pb2 import MetadataResponse
from sharebroker.group_coordinator.v1.group_coordinator_pb2 import (
    Assignment,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from sharebroker.share_coordinator.v1.share_coordinator_pb2 import (
    InspectShareGroupStateResponse,
    PartitionResult,
    StateBatch,
)
from sharebroker.status.v1.status_pb2 import ERROR_CODE_FENCED_STATE_EPOCH

LogRecord = InspectShareGroupStateResponse.LogRecord


def test_topic_and_its_partitions() -> None:
    topic = MetadataResponse.Topic(name="orders", topic_id="x" * 22, configs={"b": "2", "a": "1"})
    led = topic.partitions.add(partition_index=0, leader_id=4, leader_epoch=7)
    idle = topic.partitions.add(partition_index=1, leader_id=-1)
    assert topic_row(topic) == {
        "name": "orders",
        "topic_id": "x" * 22,
        "partitions": 2,
        "configs": {"a": "1", "b": "2"},
    }
    assert partition_row(led, {0: 10}, {0: 15}) == {
        "partition": 0,
        "leader": 4,
        "leader_epoch": 7,
        "start_offset": 10,
        "end_offset": 15,
        "records": 5,
    }
    assert partition_row(idle, {}, {})["leader"] is None
    assert partition_row(idle, {}, {})["records"] is None


def test_member_shows_its_partitions_by_topic() -> None:
    member = ShareGroupDescribeResponse.Member(
        member_id="m",
        member_epoch=3,
        client_id="c",
        client_host="h",
        subscribed_topic_names=["orders"],
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id="x", topic_name="orders", partitions=[0, 1]),
                TopicPartitions(topic_id="y", partitions=[2]),
            ]
        ),
    )
    assert member_row(member)["assigned"] == {"orders": [0, 1], "y": [2]}


def inspected() -> InspectShareGroupStateResponse:
    checkpoint = LogRecord(
        position=3,
        kind="checkpoint",
        checkpoint_epoch=1,
        start_offset=100,
        state_epoch=2,
        leader_epoch=5,
        delivery_complete_count=0,
    )
    delta = LogRecord(
        position=4,
        kind="delta",
        checkpoint_epoch=1,
        delta_index=9,
        start_offset=-1,
        leader_epoch=5,
        delivery_complete_count=-1,
        state_batches=[StateBatch(first_offset=100, last_offset=109, delivery_state=2, delivery_count=1)],
    )
    folded = LogRecord(start_offset=110, state_epoch=2, leader_epoch=5, checkpoint_epoch=1)
    return InspectShareGroupStateResponse(
        shard=7, stream="s:log", records=[checkpoint, delta], folded=folded, consistent=True
    )


def test_delta_has_an_index_and_no_state_epoch() -> None:
    checkpoint, delta = (record_row(record) for record in inspected().records)
    assert (checkpoint["delta_index"], checkpoint["state_epoch"]) == (None, 2)
    assert (delta["delta_index"], delta["state_epoch"], delta["start_offset"]) == (9, None, None)
    assert runs(delta) == "100-109 acknowledged (1)"


def test_state_is_shown_side_by_side() -> None:
    console = Console(file=io.StringIO(), width=160)
    console.print(side_by_side(inspected()))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    heading = shown.splitlines()[0]
    assert heading.index("In the log") < heading.index("Folded")
    assert "100-109 acknowledged (1)" in shown
    assert "Stream s:log (shard 7); the coordinator's live value agrees." in shown


def test_state_that_is_gone_or_disagrees_says_so() -> None:
    answer = inspected()
    answer.ClearField("folded")
    answer.consistent = False
    console = Console(file=io.StringIO(), width=160)
    console.print(side_by_side(answer))
    assert isinstance(console.file, io.StringIO)
    assert "no state" in console.file.getvalue()
    assert "DOES NOT AGREE" in console.file.getvalue()
    assert state_document(answer)["folded"] is None


def test_in_band_error_is_raised_with_what_it_is_about() -> None:
    check(PartitionResult(partition=1), "Partition 1")
    bad = PartitionResult(partition=1, error_code=ERROR_CODE_FENCED_STATE_EPOCH, error_message="Old.")
    with pytest.raises(KafkaError, match=r"Partition 1: Old\.") as caught:
        check(bad, "Partition 1")
    assert caught.value.code is ErrorCode.FENCED_STATE_EPOCH


def test_unset_properties_have_no_value() -> None:
    changes = config_changes(settings(["a=1", "b=x=y"], "--config"), ["c"])
    assert [(change.name, change.value) for change in changes] == [("a", "1"), ("b", "x=y"), ("c", "")]
    assert [change.HasField("value") for change in changes] == [True, True, False]
