"""Validation of requests; invalid ones raise KafkaError."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError, invalid_field
from sharebroker_protocol.model import LONGEST_DELAY_MS, SHORTEST_LOCK_MS, AckBatch, AcquireMode
from sharebroker_server.catalog.topics import check_group_id, check_topic_name

MAX_WAIT: Final = 60.0
"""Limit of the wait for records in one unary call."""


MEMBER_ID_LENGTH: Final = 36
LONGEST_REQUEST_ID: Final = 64
RELEASE: Final = 2
RENEW: Final = 4
_MODES: Final = {int(mode): mode for mode in AcquireMode}


def check_member_id(member_id: str, field: str = "member_id") -> None:
    """Raises INVALID_REQUEST for a member id without 1 to 36 characters (Kafka: KafkaApis)."""
    if not 1 <= len(member_id) <= MEMBER_ID_LENGTH:
        raise invalid_field(field, f"A member id has 1 to {MEMBER_ID_LENGTH} characters.")


def check_member(group_id: str, member_id: str) -> None:
    """Raises INVALID_REQUEST for an invalid group id or member id."""
    check_group_id(group_id)
    check_member_id(member_id)


def check_topic_names(field: str, names: Iterable[str]) -> None:
    """Raises INVALID_TOPIC_EXCEPTION for the first invalid name."""
    for index, name in enumerate(names):
        check_topic_name(name, f"{field}[{index}]")


def check_request_id(request_id: str) -> None:
    """Raises INVALID_REQUEST for an id without 1 to 64 letters, digits, '-' and '_'."""
    plain = request_id.replace("-", "").replace("_", "")
    if len(request_id) > LONGEST_REQUEST_ID or not (plain.isalnum() and plain.isascii()):
        text = f"request_id may have {LONGEST_REQUEST_ID} letters, digits, '-' and '_'."
        raise invalid_field("request_id", text)


def check_bounds(field: str, value: int, low: int, high: int) -> None:
    """Raises INVALID_REQUEST unless low <= value <= high."""
    if not low <= value <= high:
        raise invalid_field(field, f"{field} is {value}; {low} to {high} is allowed.")


def acquire_mode(mode: int, field: str = "share_acquire_mode") -> AcquireMode:
    """The acquire mode with this number. Raises INVALID_REQUEST for an unknown number."""
    if mode not in _MODES:
        raise invalid_field(field, f"{mode} is not an acquire mode.")
    return _MODES[mode]


def check_delay(field: str, delay_ms: int, kind: int) -> None:
    """Raises INVALID_REQUEST for a delay that is too long, or that does not belong to a release."""
    check_bounds(field, delay_ms, 0, LONGEST_DELAY_MS if kind == RELEASE else 0)


def check_lock(field: str, lock_ms: int, longest: int) -> None:
    """Raises INVALID_REQUEST for the length of a lock out of bounds; 0: a length from the config."""
    if lock_ms:
        check_bounds(field, lock_ms, SHORTEST_LOCK_MS, longest)


def check_renewing_fetch(**sizes: int) -> None:
    """Raises INVALID_REQUEST if a fetch that renews has a size or a wait (KIP-1222)."""
    invalid = [name for name, value in sizes.items() if value != 0]
    if invalid:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A fetch that renews acknowledgements has no sizes and no wait.",
            violations=[FieldViolation(name, "Must be 0 with is_renew_ack.") for name in invalid],
        )


def batches_refusal(batches: Sequence[AckBatch], *, renew_allowed: bool) -> str | None:
    """The problem of a partition's ack batches; None if they are valid.

    Kafka: KafkaApis.validateAcknowledgementBatches. Batches may touch by one offset, as there.
    """
    end = -1
    for batch in batches:
        if batch.first < -1:
            return f"Offsets are 0 or more, not {batch.first}."
        if batch.first > batch.last:
            return f"Offsets run backwards: {batch.first} to {batch.last}."
        if batch.first < end:
            return f"Offsets overlap: a batch begins at {batch.first}, the one before ends at {end}."
        end = batch.last
        problem = _types_refusal(batch, renew_allowed=renew_allowed)
        if problem is not None:
            return problem
    return None


def _types_refusal(batch: AckBatch, *, renew_allowed: bool) -> str | None:
    if not batch.types:
        return "acknowledge_types is empty."
    count = batch.last - batch.first + 1
    if len(batch.types) not in (1, count):
        return (
            f"acknowledge_types has {len(batch.types)} entries for {count} offsets; 1 or {count} are allowed."
        )
    for kind in batch.types:
        if not 0 <= kind <= RENEW:
            return f"{kind} is not an acknowledge type."
        if kind == RENEW and not renew_allowed:
            return "RENEW needs is_renew_ack."
    return None
