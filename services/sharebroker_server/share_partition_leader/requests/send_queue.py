"""What a delivery stream has to send: the events of one turn of the loop leave in one message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.leader_calls.values import (
    DeliverOutput,
    Delivery,
    LostRange,
    Problem,
    StreamAckResult,
)
from sharebroker_server.share_partition_leader.config import MESSAGE_BYTES, UNSENT_ENTRIES
from sharebroker_server.share_partition_leader.core.values import LostLock
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.ack_batching import AckRequest


class SendQueue:
    """The next message of a stream. `filled` is set while it has entries."""

    __slots__ = ("_bytes", "_drained", "_message", "entries", "filled")

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.entries = 0
        self._message = DeliverOutput([], [], [], [])
        self._bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def full(self) -> bool:
        """Whether further records have to wait for the next message."""
        return self._bytes >= MESSAGE_BYTES

    def pop(self) -> DeliverOutput:
        """Removes the message and begins another."""
        message, self._message = self._message, DeliverOutput([], [], [], [])
        self._bytes = self.entries = 0
        self._drained.set()
        return message

    async def drained(self) -> None:
        """Waits while too many entries are unsent: back-pressure on a client that does not read."""
        await self._drained.wait()

    def add_records(self, share_partition: ShareGroupPartition, fetched: Fetched) -> None:
        """Adds records that were acquired for the stream."""
        self._message.deliveries.append(
            Delivery(
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
                add(StreamAckResult(ack_id, first, last, lock_deadline=deadline))
        else:
            for first, last, _, _, ack_id in acks:
                add(StreamAckResult(ack_id, first, last, error.code, error.message))
        self._added(len(acks))

    def add_lost_lock(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """Adds a lock that the stream lost."""
        self._message.lost.append(
            LostRange(share_partition.topic_id, share_partition.partition, lost.first, lost.last, lost.token)
        )
        self._added(1)

    def add_problem(self, topic_id: str, partition: int, error: KafkaError) -> None:
        """Adds a partition from which records cannot be delivered now."""
        self._message.problems.append(Problem(topic_id, partition, error.code, error.message))
        self._added(1)

    def _added(self, entries: int) -> None:
        self.entries += entries
        if self.entries >= UNSENT_ENTRIES:
            self._drained.clear()
        self.filled.set()
