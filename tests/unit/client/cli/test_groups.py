"""Groups as plain values."""

from __future__ import annotations

from sharebroker.admin_model import FailedEntry, GroupOffset, MemberDescription
from sharebroker.cli.groups import failed_row, member_row, offset_rows
from sharebroker_protocol.model import TopicPartition


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
    stands = GroupOffset(4, 9, 2, ready=3, locked=2, waiting=4)
    offsets = {TopicPartition("b", 0): stands, TopicPartition("a", 1): stands, TopicPartition("a", 0): stands}
    assert [(row["topic"], row["partition"]) for row in offset_rows(offsets, None)] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert offset_rows(offsets, ["b"]) == [
        {
            "topic": "b",
            "partition": 0,
            "start_offset": 4,
            "lag": 9,
            "leader_epoch": 2,
            "ready": 3,
            "locked": 2,
            "waiting": 4,
        }
    ]


def test_failed_records_have_a_readable_time() -> None:
    row = failed_row("orders", FailedEntry(1, 3, 4, "rejected", 2, 1_790_000_000.5, "m1", "no such account"))
    assert row == {
        "topic": "orders",
        "partition": 1,
        "first_offset": 3,
        "last_offset": 4,
        "disposition": "rejected",
        "delivery_count": 2,
        "time": "2026-09-21T14:13:20.500+00:00",
        "member_id": "m1",
        "reason": "no such account",
    }
