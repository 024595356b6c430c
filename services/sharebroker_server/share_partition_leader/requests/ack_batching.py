"""Coalesces the acknowledgements of one message: neighbouring records become one ack batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.model import AckBatch, AckType

RENEW: Final = delivery.ACKNOWLEDGE_TYPE_RENEW
_GAP: Final = delivery.ACKNOWLEDGE_TYPE_GAP
_INVALID: Final = -1
"""Stands for an unknown acknowledge type; its acknowledgement is rejected alone."""


class AckGroup(NamedTuple):
    """Acknowledgements that are applied together: those of one partition with the same delay.

    Renewals form groups of their own, and so do acknowledgements of records that the application has not
    seen.
    """

    topic_id: str
    partition: int
    renewal: bool
    delay_ms: int
    unseen: bool = False


class AckRequest(NamedTuple):
    """One acknowledgement, or a part of it; `token` 0 checks the holder only."""

    first: int
    last: int
    type: int
    token: int
    id: int


def group_acks(acknowledgements: Iterable[delivery.Acknowledgement]) -> dict[AckGroup, list[AckRequest]]:
    """Acknowledgements by group, ascending; repeated acknowledgements of a record keep their order."""
    groups: dict[AckGroup, list[AckRequest]] = {}
    for ack in acknowledgements:
        first, ack_type = ack.first_offset, _type_number(ack.type)
        last = ack.last_offset if ack.HasField("last_offset") else first
        group = AckGroup(ack.topic_id, ack.partition, ack_type == RENEW, ack.delay_ms, ack.unseen)
        groups.setdefault(group, []).append(AckRequest(first, last, ack_type, ack.lock_token, ack.id))
    for acks in groups.values():
        acks.sort(key=itemgetter(0))
    return groups


def _type_number(ack_type: int) -> int:
    """Kafka's number of an acknowledge type."""
    if 0 < ack_type <= RENEW:
        return ack_type
    return int(AckType.GAP) if ack_type == _GAP else _INVALID


def coalesce(acks: Sequence[AckRequest]) -> list[AckBatch]:
    """Ack batches of ascending acknowledgements; neighbours with the same type and token become one."""
    batches = []
    first, last, ack_type, token, _ = acks[0]
    for ack in acks[1:]:
        # A range that ends before it begins must stay alone, so that only it is rejected.
        valid = first <= last and ack.first <= ack.last
        if valid and ack.first == last + 1 and ack.type == ack_type and ack.token == token:
            last = ack.last
        else:
            batches.append(AckBatch(first, last, (ack_type,), token or None))
            first, last, ack_type, token, _ = ack
    batches.append(AckBatch(first, last, (ack_type,), token or None))
    return batches
