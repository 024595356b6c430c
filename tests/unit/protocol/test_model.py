"""Value types whose form is part of a protocol."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import FINISHED, AckType, AcquireMode, RecordState, SharePartitionKey


def test_key_text_equals_kafkas() -> None:
    """The text is hashed to find a shard, so a change would lose every stored state."""
    assert str(SharePartitionKey("g:1", "AAAA", 3)) == "g:1:AAAA:3"


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (RecordState, {"AVAILABLE": 0, "ACQUIRED": 1, "ACKNOWLEDGED": 2, "ARCHIVING": 3, "ARCHIVED": 4}),
        (AckType, {"GAP": 0, "ACCEPT": 1, "RELEASE": 2, "REJECT": 3, "RENEW": 4}),
        (AcquireMode, {"BATCH_OPTIMIZED": 0, "RECORD_LIMIT": 1}),
    ],
)
def test_numbers_equal_kafkas(
    kind: type[RecordState | AckType | AcquireMode], numbers: dict[str, int]
) -> None:
    assert {member.name: int(member) for member in kind} == numbers


def test_acknowledged_and_archived_are_terminal() -> None:
    assert FINISHED == (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


def test_a_state_finds_its_number_in_a_mapping() -> None:
    assert {4: "archived"}[RecordState.ARCHIVED] == "archived"
