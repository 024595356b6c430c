"""What administration commands make of the server's answers."""

from __future__ import annotations

import io

from rich.console import Console

from sharebroker.admin_model import GroupOffset, MemberDescription, TopicDescription
from sharebroker.cli.groups import member_row, offset_rows
from sharebroker.cli.options import changes
from sharebroker.cli.state import record_row, runs, side_by_side, state_document
from sharebroker.cli.topics import partition_row, topic_row
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import (
    InspectShareGroupStateResponse,
    StateBatch,
)

LogRecord = InspectShareGroupStateResponse.LogRecord


def test_topic_and_its_partitions() -> None:
    topic = TopicDescription("orders", "x" * 22, 2, {"b": "2", "a": "1"})
    assert topic_row(topic) == {
        "name": "orders",
        "topic_id": "x" * 22,
        "partitions": 2,
        "configs": {"a": "1", "b": "2"},
    }
    place = TopicPartition("orders", 0)
    assert partition_row(place, {place: 10}, {place: 15}) == {
        "partition": 0,
        "start_offset": 10,
        "end_offset": 15,
        "records": 5,
    }
    assert partition_row(place, {place: None}, {place: 15})["records"] is None


def test_member_shows_its_partitions_by_topic() -> None:
    member = MemberDescription("m", 3, "c", "h", frozenset({"b", "a"}), {"a": (0, 1), "b": (2,)})
    assert member_row(member) == {
        "member": "m",
        "epoch": 3,
        "client_id": "c",
        "host": "h",
        "topics": ["a", "b"],
        "assigned": {"a": [0, 1], "b": [2]},
    }


def test_offsets_are_in_order_and_filtered() -> None:
    stands = GroupOffset(4, None, 2)
    offsets = {TopicPartition("b", 0): stands, TopicPartition("a", 1): stands, TopicPartition("a", 0): stands}
    assert [(row["topic"], row["partition"]) for row in offset_rows(offsets, None)] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert offset_rows(offsets, ["b"]) == [
        {"topic": "b", "partition": 0, "start_offset": 4, "lag": None, "leader_epoch": 2}
    ]


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
    assert heading.index("In the log") < heading.index("Replayed")
    assert "100-109 acknowledged (1)" in shown
    assert "Stream s:log (shard 7); the coordinator's live state agrees." in shown


def test_missing_or_inconsistent_state_is_shown() -> None:
    answer = inspected()
    answer.ClearField("folded")
    answer.consistent = False
    console = Console(file=io.StringIO(), width=160)
    console.print(side_by_side(answer))
    assert isinstance(console.file, io.StringIO)
    assert "no state" in console.file.getvalue()
    assert "DOES NOT AGREE" in console.file.getvalue()
    assert state_document(answer)["folded"] is None


def test_unset_properties_have_no_value() -> None:
    assert changes(["a=1", "b=x=y"], ["c"], "--config") == {"a": "1", "b": "x=y", "c": None}
