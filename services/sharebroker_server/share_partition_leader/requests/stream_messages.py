"""What a delivery stream has to send: the events of one turn of the loop leave in one message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import AckBatch, AckType
from sharebroker_server.leader_calls import values
from sharebroker_server.share_partition_leader.core.events import LostLock
from sharebroker_server.share_partition_leader.share_partition.reading import Fetched
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)

MESSAGE_BYTES: Final = 4 << 20
"""Bytes of record batches after which a message to a consumer is complete."""

UNSENT_ENTRIES: Final = 20_000
"""Unsent results and notifications beyond which no more requests are read from a stream."""

REJECT: Final = delivery.ACKNOWLEDGE_TYPE_REJECT
RENEW: Final = delivery.ACKNOWLEDGE_TYPE_RENEW
_GAP: Final = delivery.ACKNOWLEDGE_TYPE_GAP
_FAILURES: Final = (delivery.ACKNOWLEDGE_TYPE_REJECT, delivery.ACKNOWLEDGE_TYPE_RELEASE)
_INVALID: Final = -1
"""Stands for an unknown acknowledge type; its acknowledgement is rejected alone."""


class NextMessage:
    """The next message of a stream. `filled` is set while it has entries."""

    __slots__ = ("_bytes", "_drained", "_message", "entries", "filled")

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.entries = 0
        self._message = values.DeliverOutput([], [], [], [])
        self._bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def full(self) -> bool:
        """Whether further records have to wait for the next message."""
        return self._bytes >= MESSAGE_BYTES

    def pop(self) -> values.DeliverOutput:
        """Removes the message and begins another."""
        message, self._message = self._message, values.DeliverOutput([], [], [], [])
        self._bytes = self.entries = 0
        self._drained.set()
        return message

    async def drained(self) -> None:
        """Waits while too many entries are unsent: back-pressure on a client that does not read."""
        await self._drained.wait()

    def add_records(self, share_partition: ShareGroupPartition, fetched: Fetched) -> None:
        """Adds records that were acquired for the stream."""
        self._message.deliveries.append(
            values.Delivery(
                share_partition.topic_id,
                share_partition.topic,
                share_partition.partition,
                fetched.records,
                fetched.acquired,
            )
        )
        self._bytes += len(fetched.records)
        self._added(1)

    def add_results(self, acks: Sequence[AckRequest], deadline: float, error: KafkaError | None) -> None:
        """Adds one result per acknowledgement; `deadline` is that of renewed locks, else 0."""
        add = self._message.results.append
        if error is None:
            for first, last, _, _, ack_id in acks:
                add(values.StreamAckResult(ack_id, first, last, lock_deadline=deadline))
        else:
            for first, last, _, _, ack_id in acks:
                add(values.StreamAckResult(ack_id, first, last, error.code, error.message))
        self._added(len(acks))

    def add_lost_lock(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """Adds a lock that the stream lost."""
        self._message.lost.append(
            values.LostRange(
                share_partition.topic_id, share_partition.partition, lost.first, lost.last, lost.token
            )
        )
        self._added(1)

    def add_problem(self, topic_id: str, partition: int, error: KafkaError) -> None:
        """Adds a partition from which records cannot be delivered now."""
        self._message.problems.append(values.Problem(topic_id, partition, error.code, error.message))
        self._added(1)

    def _added(self, entries: int) -> None:
        self.entries += entries
        if self.entries >= UNSENT_ENTRIES:
            self._drained.clear()
        self.filled.set()


class AckGroup(NamedTuple):
    """Acknowledgements that are applied together: those of one partition with the same details.

    Renewals form groups of their own, and so do acknowledgements of records that the application has not
    seen. `lock_ms` 0: the length of the stream's locks.
    """

    topic_id: str
    partition: int
    renewal: bool
    delay_ms: int | None
    unseen: bool = False
    lock_ms: int = 0
    blameless: bool = False
    reason: str = ""


class AckRequest(NamedTuple):
    """One acknowledgement, or a part of it; `token` 0 checks the holder only."""

    first: int
    last: int
    type: int
    token: int
    id: int


def group_acks(acknowledgements: Iterable[delivery.Acknowledgement]) -> dict[AckGroup, list[AckRequest]]:
    """Acknowledgements by group, ascending; repeated acknowledgements of a record keep their order."""
    groups: dict[tuple[str, int, bool, int | None, bool, int, bool, str], list[AckRequest]] = {}
    for ack in acknowledgements:
        first, ack_type = ack.first_offset, _type_number(ack.type)
        last = ack.last_offset if ack.HasField("last_offset") else first
        delay_ms = ack.delay_ms if ack.HasField("delay_ms") else None
        reason = ack.reason if ack_type in _FAILURES else ""
        renewal = ack_type == RENEW
        key = (ack.topic_id, ack.partition, renewal, delay_ms, ack.unseen, ack.lock_ms, ack.blameless, reason)
        groups.setdefault(key, []).append(AckRequest(first, last, ack_type, ack.lock_token, ack.id))
    for acks in groups.values():
        acks.sort(key=itemgetter(0))
    return {AckGroup(*key): acks for key, acks in groups.items()}


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
