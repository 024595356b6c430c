"""What a stream has to send: what happens in one turn of the loop leaves in one message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.rpc.partition_errors import refusal
from sharebroker_server.share_calls.messages import add_acquired
from sharebroker_server.share_partition_leader.config import MESSAGE_BYTES, UNSENT_ENTRIES
from sharebroker_server.share_partition_leader.core.values import LostLock
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.ack_batching import Asked


class Outbox:
    """The next message of a stream. `filled` is set when there is one."""

    __slots__ = ("_bytes", "_drained", "_message", "entries", "filled")

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.entries = 0
        self._message = pb.DeliverResponse()
        self._bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def full(self) -> bool:
        """Whether records have to wait for the next message."""
        return self._bytes >= MESSAGE_BYTES

    def take(self) -> pb.DeliverResponse:
        """The message; a new one begins."""
        message, self._message = self._message, pb.DeliverResponse()
        self._bytes = self.entries = 0
        self._drained.set()
        return message

    async def drained(self) -> None:
        """Waits while a client that does not read leaves too much here."""
        await self._drained.wait()

    def add_records(self, share_partition: ShareGroupPartition, acquisition: Fetched) -> None:
        """Records that were acquired for the stream."""
        sent = self._message.deliveries.add(
            topic_id=share_partition.topic_id,
            topic=share_partition.topic,
            partition=share_partition.partition,
            record_batches=acquisition.records,
        )
        add_acquired(sent.acquired, acquisition.acquired)
        self._bytes += len(acquisition.records)
        self._added(1)

    def add_results(self, asked: Sequence[Asked], deadline: float, error: KafkaError | None) -> None:
        """One result for each acknowledgement; `deadline` is that of renewed locks, else 0."""
        add = self._message.results.add
        if error is None and not deadline:
            for first, last, _, _, ack_id in asked:
                add(id=ack_id, first_offset=first, last_offset=last)
        else:
            code, message = (int(error.code), error.message) if error is not None else (0, "")
            for first, last, _, _, ack_id in asked:
                result = add(id=ack_id, first_offset=first, last_offset=last, error_message=message)
                result.error_code = code  # type: ignore[assignment]  # the enum's numbers are Kafka's
                result.lock_deadline_ms = 0 if code else round(deadline * 1000)
        self._added(len(asked))

    def add_lost_lock(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock that the stream no longer has."""
        self._message.lock_lost.add(
            topic_id=share_partition.topic_id,
            partition=share_partition.partition,
            first_offset=lost.first,
            last_offset=lost.last,
            lock_token=lost.token,
        )
        self._added(1)

    def add_problem(self, topic_id: str, partition: int, error: KafkaError) -> None:
        """A partition that cannot be delivered from at the moment."""
        self._message.problems.add(
            topic_id=topic_id,
            partition=partition,
            **refusal(error),
        )
        self._added(1)

    def _added(self, entries: int) -> None:
        self.entries += entries
        if self.entries >= UNSENT_ENTRIES:
            self._drained.clear()
        self.filled.set()
