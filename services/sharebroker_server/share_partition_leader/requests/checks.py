"""Checks of requests to a leader, each raises INVALID_REQUEST with the field."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import invalid_field
from sharebroker_protocol.model import AcquireMode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb

LONGEST_WAIT_MS: Final = 60_000
"""Limit of the wait of AwaitRecords."""


def check_open(opening: pb.DeliverRequest.Open) -> None:
    """Raises INVALID_REQUEST if a stream cannot be opened so."""
    if not opening.group_id or not opening.member_id:
        raise invalid_field(
            "open", "The first message opens the stream; it needs a group id and a member id."
        )
    check_mode(opening.acquire_mode)


def wait_seconds(max_wait_ms: int) -> float:
    """Returns the wait in seconds. Raises INVALID_REQUEST."""
    if not 0 <= max_wait_ms <= LONGEST_WAIT_MS:
        raise invalid_field(
            "max_wait_ms", f"max_wait_ms is {max_wait_ms}; 0 to {LONGEST_WAIT_MS} is allowed."
        )
    return max_wait_ms / 1000


def check_mode(mode: int) -> None:
    """Raises INVALID_REQUEST for a number that is no acquire mode."""
    if mode not in tuple(AcquireMode):
        raise invalid_field("acquire_mode", f"{mode} is not an acquire mode.")
