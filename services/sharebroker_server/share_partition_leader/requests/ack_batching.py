"""What a message acknowledges, gathered: single records that lie side by side are told as one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.model import AckBatch, AckType

RENEW: Final = delivery.ACKNOWLEDGE_TYPE_RENEW
_GAP: Final = delivery.ACKNOWLEDGE_TYPE_GAP
_NONE: Final = -1
"""No acknowledge type: what has it is refused by itself."""


class Group(NamedTuple):
    """What can be acknowledged together: one partition's with one delay; renewals, unseen by themselves."""

    topic_id: str
    partition: int
    renewal: bool
    delay_ms: int
    unseen: bool = False


class Asked(NamedTuple):
    """One acknowledgement, or a part of it; `token` 0 checks the holder only."""

    first: int
    last: int
    kind: int
    token: int
    id: int


def gathered(acknowledgements: Iterable[delivery.Acknowledgement]) -> dict[Group, list[Asked]]:
    """Acknowledgements by group, ascending; what is said twice of a record keeps its order."""
    groups: dict[Group, list[Asked]] = {}
    for said in acknowledgements:
        first, kind = said.first_offset, _kind(said.type)
        last = said.last_offset if said.HasField("last_offset") else first
        group = Group(said.topic_id, said.partition, kind == RENEW, said.delay_ms, said.unseen)
        groups.setdefault(group, []).append(Asked(first, last, kind, said.lock_token, said.id))
    for asked in groups.values():
        asked.sort(key=itemgetter(0))
    return groups


def _kind(said: int) -> int:
    """Kafka's number of an acknowledge type."""
    if 0 < said <= RENEW:
        return said
    return int(AckType.GAP) if said == _GAP else _NONE


def batches_of(asked: Sequence[Asked]) -> list[AckBatch]:
    """The batches of ascending acknowledgements, neighbours of one kind and token as one."""
    batches = []
    first, last, kind, token, _ = asked[0]
    for one in asked[1:]:
        # A range that ends before it begins must stay by itself, to be refused.
        whole = first <= last and one.first <= one.last
        if whole and one.first == last + 1 and one.kind == kind and one.token == token:
            last = one.last
        else:
            batches.append(AckBatch(first, last, (kind,), token or None))
            first, last, kind, token, _ = one
    batches.append(AckBatch(first, last, (kind,), token or None))
    return batches
