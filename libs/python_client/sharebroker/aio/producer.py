"""The asyncio producer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from typing_extensions import override

from sharebroker.aio.connection import AsyncClient
from sharebroker.aio.publishing import Publishing
from sharebroker.client_errors import warn_unclosed
from sharebroker.producer.buffer import Publication, RecordMetadata
from sharebroker.producer.config import ProducerConfig
from sharebroker_protocol.address import Address
from sharebroker_protocol.clock import now
from sharebroker_protocol.records.batches import Header
from sharebroker_protocol.records.record import with_own_headers

_YIELD_EVERY = 500  # records after which `send` lets other tasks run


class Producer(AsyncClient):
    """Publishes records in batches (Kafka: KafkaProducer). Keys map to the same partitions as in Kafka.

        async with Producer("127.0.0.1:9090") as producer:
            publication = await producer.send("topic", b"value", key=b"key")

    Await the publication for the position of the record, or ignore it: `close` waits for all records.
    A retry appends no record twice (`enable_idempotence`). A record that the application sends again is a new
    one, unless it has a `message_id`.
    """

    def __init__(self, address: str | Address, config: ProducerConfig | None = None) -> None:
        """`address` is the gateway's `host:port`. Raises KafkaError INVALID_CONFIG."""
        self._publishing = Publishing(address, config or ProducerConfig())
        self._since_yield = 0

    def __del__(self) -> None:
        if hasattr(self, "_publishing") and not self._publishing.closed:
            warn_unclosed(self)
            self._publishing.abandon()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        message_id: str | bytes | None = None,
        deliver_at: float | None = None,
        deliver_after: float | None = None,
    ) -> Publication:
        """Queues a record; waits only for buffer memory and, once per topic, for its partitions.

        `timestamp_ms` is in milliseconds since the Unix epoch (default: now). Without `partition`, the key
        chooses the partition, and records without key fill one partition's batch at a time.

        `message_id` (1 to 128 bytes) identifies a record that is published again, in topics with
        `message.dedup.window.ms`; it chooses the partition of a record without key.

        Share groups deliver the record at `deliver_at` (seconds since the Unix epoch) or `deliver_after`
        seconds from now by the clock of this client, at most `delivery.delay.max.ms` from now. Topics without
        `delivery.delay.enable` ignore both.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, INVALID_RECORD (`message_id` or
        delivery time), REQUEST_TIMED_OUT (no buffer memory or no server within `max_block_ms`), and
        IllegalStateError when closed.
        """
        if message_id is not None or deliver_at is not None or deliver_after is not None:
            headers = with_own_headers(headers, message_id, deliver_at, deliver_after, now)
        self._since_yield += 1
        if self._since_yield >= _YIELD_EVERY:
            self._since_yield = 0
            await asyncio.sleep(0)
        record = (key, value, headers)
        while (sent := self._publishing.try_send(topic, partition, record, timestamp_ms)) is None:
            await self._publishing.prepare(topic)
        return sent

    async def publish(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        message_id: str | bytes | None = None,
        deliver_at: float | None = None,
        deliver_after: float | None = None,
    ) -> RecordMetadata:
        """Sends one record and waits until it is durable. Raises the errors of `send` and of the append."""
        sent = await self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            message_id=message_id,
            deliver_at=deliver_at,
            deliver_after=deliver_after,
        )
        return await sent

    async def flush(self) -> None:
        """Sends all records at once and waits until the outcome of each is known."""
        await self._publishing.flush()

    @override
    async def close(self, timeout: float = 30.0) -> None:
        """Flushes; records unconfirmed after `timeout` seconds fail with REQUEST_TIMED_OUT."""
        await self._publishing.close(timeout)
