"""The background of a producer, shared by its asyncio and its blocking form."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sharebroker.aio.connection import Connection
from sharebroker.aio.sender import Sender
from sharebroker.producer.buffer import RecordBuffer
from sharebroker.producer.config import ProducerConfig
from sharebroker.producer.publication import Publication
from sharebroker.tracing.application import record_traces
from sharebroker_protocol import clock
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.batch_builder import Header
from sharebroker_protocol.tracing.context import BYTES as TRACE_BYTES

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.publishing import RecordTraces


class Publishing:
    """Must be created in the event loop. `try_send` may be called from any thread, the rest from the loop."""

    def __init__(self, address: str, config: ProducerConfig) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._connection = Connection(address)
        self._buffer = RecordBuffer(config, random.randrange, self._wake)
        self._sender = Sender(self._connection, config, self._buffer)
        self._tasks = [self._loop.create_task(work) for work in (self._sender.run(), self._sender.expire())]
        self._closed = False
        self._traces = record_traces()
        self._untraced = 0 if self._traces is None else self._traces.left_out()

    def _wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._sender.wake()
        else:
            self._loop.call_soon_threadsafe(self._sender.wake)

    def try_send(
        self,
        topic: str,
        partition: int | None,
        record: tuple[bytes | None, bytes | None, Sequence[Header]],
        timestamp_ms: int | None,
    ) -> Publication | None:
        """Appends a record (key, value, headers); returns None if the caller must await `prepare` first.

        Raises KafkaError MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION and, when closed, IllegalStateError.
        """
        if self._closed:
            raise IllegalStateError("the producer is closed")
        now = clock.now()
        if self._buffer.full or self._sender.needs_metadata(topic, now):
            return None
        timestamp = int(now * 1000) if timestamp_ms is None else timestamp_ms
        traces = self._traces
        if traces is not None:
            if self._untraced > 0:
                self._untraced -= 1
            elif now >= traces.full_until:
                return self._traced(traces, topic, partition, (timestamp, *record), now)
        return self._buffer.append(topic, partition, (timestamp, *record), now)

    def _traced(
        self,
        traces: RecordTraces,
        topic: str,
        partition: int | None,
        record: tuple[int, bytes | None, bytes | None, Sequence[Header]],
        now: float,
    ) -> Publication:
        self._untraced = traces.left_out()
        timestamp, key, value, headers = record
        size = len(key or b"") + len(value or b"")
        size += sum(len(name) + len(header or b"") for name, header in headers)
        fits = size + TRACE_BYTES <= self._config.max_request_size
        span = traces.begin(topic, headers, now) if fits else None
        if span is None:
            return self._buffer.append(topic, partition, record, now)
        traced = (timestamp, key, value, (*headers, *traces.headers(span)))
        publication = self._buffer.append(topic, partition, traced, now)
        publication.traced(traces, span)
        return publication

    async def prepare(self, topic: str) -> None:
        """Reads the topic's partition count and waits for buffer memory.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT.
        """
        if self._sender.needs_metadata(topic, clock.now()):
            await self._sender.load_metadata(topic)
        await self._sender.wait_for_room()

    async def flush(self) -> None:
        """Waits until the outcome of every appended record is known."""
        await self._sender.flush()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def abandon(self) -> None:
        """Cancels the background tasks; unsent records are lost. May be called from any thread."""
        with suppress(RuntimeError):  # the loop is closed: no task runs
            self._loop.call_soon_threadsafe(self._end_all)

    def _end_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self, timeout: float) -> None:
        """Flushes for at most `timeout` seconds, then fails the remaining records with REQUEST_TIMED_OUT."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(timeout):
                await self._sender.flush()
        except TimeoutError:
            pass
        finally:
            await end(self._tasks)
            self._buffer.abandon(
                KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "The producer was closed before the record was confirmed."
                )
            )
            await self._connection.close()
