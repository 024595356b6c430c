"""Groups as plain values."""

from __future__ import annotations

from typing import cast

import pytest

from sharebroker.admin_model import (
    FailedEntry,
    FailedListing,
    GroupOffset,
    MemberDescription,
    RetriedRun,
    RetryResult,
)
from sharebroker.blocking.admin import Admin
from sharebroker.cli.commands.groups import (
    _failed,
    failed_row,
    member_row,
    offset_rows,
    retry_rows,
    unretried,
)
from sharebroker_protocol.errors import ErrorCode, KafkaError
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
    stands = GroupOffset(4, 9, 2, ready=2, locked=2, waiting=4, archiving=1, oldest=1.5)
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
            "ready": 2,
            "locked": 2,
            "waiting": 4,
            "archiving": 1,
            "oldest": "1970-01-01T00:00:01.500+00:00",
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
        "retried": (),
    }


def entry(partition: int, first: int, last: int, *retried: tuple[int, int, int]) -> FailedEntry:
    runs = tuple(RetriedRun(*run) for run in retried)
    return FailedEntry(partition, first, last, "rejected", 1, 0.0, "", "", runs)


def test_records_that_were_retried_are_not_retried_with_all_others() -> None:
    listing = FailedListing((entry(0, 3, 9, (8, 8, 40), (4, 5, 30)), entry(0, 12, 12), entry(1, 0, 1)), {})
    found = {partition: list(offsets) for partition, offsets in unretried(listing, None).items()}
    assert found == {0: [3, 6, 7, 9, 12], 1: [0, 1]}
    assert [list(offsets) for offsets in unretried(listing, 1).values()] == [[0, 1]]
    repeated = FailedListing((entry(0, 1, 2, (1, 2, 5), (1, 1, 7)),), {})
    assert [list(offsets) for offsets in unretried(repeated, 0).values()] == [[]]


@pytest.mark.parametrize(
    ("code", "listed"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, False),
    ],
)
def test_failed_records_are_listed_without_their_leaders(
    code: ErrorCode, listed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    class Listing:
        def failed_records(self, *_: str, include_retried: bool = False) -> FailedListing:
            if include_retried:
                raise KafkaError(code, "no leader")
            return FailedListing((entry(0, 1, 1),), {})

    admin = cast("Admin", Listing())
    if listed:
        assert len(_failed(admin, "billing", "orders").entries) == 1
        assert "not shown: no leader" in capsys.readouterr().err
    else:
        with pytest.raises(KafkaError):
            _failed(admin, "billing", "orders")
        assert capsys.readouterr().err == ""


def test_neighbours_with_the_same_outcome_have_one_row() -> None:
    error = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "unlisted")
    results = [
        *(RetryResult(0, offset, offset + 10, None) for offset in (1, 2, 3)),
        RetryResult(0, 4, 20, None),
        RetryResult(0, 5, None, error),
        RetryResult(1, 6, None, None),
        RetryResult(1, 7, None, None),
    ]
    rows = [tuple(row.values())[1:] for row in retry_rows("orders", results)]
    assert rows == [
        (0, 1, 3, 11, None),
        (0, 4, 4, 20, None),
        (0, 5, 5, None, "RESOURCE_NOT_FOUND: unlisted"),
        (1, 6, 7, None, None),
    ]
