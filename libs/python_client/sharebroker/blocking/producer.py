"""The blocking producer."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from sharebroker.aio.publishing import Publishing
from sharebroker.blocking.loop_thread import LoopThread
from sharebroker.client_errors import warn_unclosed
from sharebroker.producer.config import ProducerConfig
from sharebroker.producer.publication import Publication, RecordMetadata
from sharebroker_protocol.records.batch_builder import Header


class Producer:
    """Publishes records in batches; any number of threads. Keys go where a Kafka producer puts them.

    `with Producer("127.0.0.1:9090") as producer:`, then `producer.send(…)` for each record; what that gives
    has the record's position as its `result()`, or is ignored. `close` waits for all. At least once: a
    record that is tried again after a lost answer may be there twice.
    """

    def __init__(self, address: str, config: ProducerConfig | None = None) -> None:
        """`address` is the gateway's host:port."""
        made = LoopThread.hosting(lambda: Publishing(address, config or ProducerConfig()))
        self._thread, self._publishing = made
        self._closed = False

    def __del__(self) -> None:
        if hasattr(self, "_publishing") and not self._closed:
            warn_unclosed(self)
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
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
        record = (key, value, headers)
        while (sent := self._publishing.offer(topic, partition, record, timestamp_ms)) is None:
            self._thread.call(self._publishing.prepare(topic))
        return sent

    def publish(
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
        sent = self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return sent.result()

    def flush(self) -> None:
        """Wait until the outcome of every record sent so far is known."""
        self._thread.call(self._publishing.flush())

    def close(self, timeout: float = 30.0) -> None:
        """Flush; what is not confirmed within `timeout` seconds fails with REQUEST_TIMED_OUT."""
        if not self._closed:
            self._closed = True
            self._thread.call(self._publishing.close(timeout))
            self._thread.close()
