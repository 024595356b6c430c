"""The asyncio producer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from sharebroker.aio.publishing import Publishing
from sharebroker.client_errors import warn_unclosed
from sharebroker.producer.config import ProducerConfig
from sharebroker.producer.publication import Publication, RecordMetadata
from sharebroker_protocol.records.batch_builder import Header

_BREATH = 500  # records after which the event loop gets its turn


class Producer:
    """Publishes records in batches. Keys go where a Kafka producer puts them.

    `async with Producer("127.0.0.1:9090") as producer:`, then `await producer.send(…)` for each record;
    what that gives can be awaited for the record's position, or ignored. `close` waits for all. At least
    once: a record that is tried again after a lost answer may be there twice.
    """

    def __init__(self, address: str, config: ProducerConfig | None = None) -> None:
        """`address` is the gateway's host:port."""
        self._publishing = Publishing(address, config or ProducerConfig())
        self._since_breath = 0

    def __del__(self) -> None:
        if hasattr(self, "_publishing") and not self._publishing.closed:
            warn_unclosed(self)
            self._publishing.abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Publication:
        """Take a record for publishing; waits only for room and, once a topic, for its partitions.

        Raises UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, REQUEST_TIMED_OUT (no room, or no server, within
        `max_block_ms`) and, when it is closed, IllegalStateError.
        """
        self._since_breath += 1
        if self._since_breath >= _BREATH:
            self._since_breath = 0
            await asyncio.sleep(0)
        record = (key, value, headers)
        while (sent := self._publishing.offer(topic, partition, record, timestamp_ms)) is None:
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
    ) -> RecordMetadata:
        """Send one record and wait until it is durable."""
        sent = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await sent

    async def flush(self) -> None:
        """Wait until the outcome of every record sent so far is known."""
        await self._publishing.flush()

    async def close(self, timeout: float = 30.0) -> None:
        """Flush; what is not confirmed within `timeout` seconds fails with REQUEST_TIMED_OUT."""
        await self._publishing.close(timeout)
