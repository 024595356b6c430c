"""The background of a producer, shared by its asyncio and its blocking form.

`Publishing` accepts records into the buffer. `Sender` sends the buffer's batches over one `ProduceStream`,
and reconnects when the stream breaks.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from sharebroker.aio.connection import WARN_AFTER, Connection, ConnectWarnings, RunningStream, call
from sharebroker.client_errors import ConnectionLostError
from sharebroker.producer.buffer import PendingBatch, Publication, RecordBuffer, RecordFields
from sharebroker.producer.config import ProducerConfig
from sharebroker.tracing.application import record_traces
from sharebroker_protocol import clock
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2, produce_pb2
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2 import InitProducerIdRequest

if TYPE_CHECKING:
    import grpc

    from sharebroker.producer.sequences import ProducerSequences
    from sharebroker_protocol.address import Address
    from sharebroker_protocol.tracing.tracer import RecordTraces


_APPEARS_WITHIN: Final = 2.0  # seconds until every broker has a topic that was just created
_NEVER_READ: Final = float("-inf")
_IDENTIFIED_WITHIN: Final = 4.0  # seconds of one attempt; less than WARN_AFTER
_TOPIC_CHANGED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Request = dict[tuple[str, int], list[PendingBatch]]


class _Sent(NamedTuple):
    """A request in flight; its response is due at `deadline` (the client's clock, seconds)."""

    batches: Request
    deadline: float


class Sender:
    """Owns the stream. `wake` must be called in the loop's thread after the buffer changed."""

    def __init__(self, connection: Connection, config: ProducerConfig, buffer: RecordBuffer) -> None:
        self._connection = connection
        self._config = config
        self._buffer = buffer
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._in_flight: dict[int, _Sent] = {}
        self._stream: RunningStream | None = None
        self._rejected = False
        self._warnings = ConnectWarnings("producer")
        self._id_warnings = ConnectWarnings("producer", "get a producer id")
        self._last_id = 0
        self._flushing = 0
        self._metadata_due: dict[str, float] = {}  # by topic; the client's clock, seconds

    def wake(self) -> None:
        """Checks again whether batches are due."""
        self._wake.set()

    async def run(self) -> None:
        """Runs one stream after the other until cancelled."""
        while True:
            started = clock.now()
            try:
                await self._run_stream()
            except KafkaError as error:
                if clock.now() - started > WARN_AFTER:  # longer than an attempt to connect
                    self._warnings.succeeded()
                self._warnings.failed(error, clock.now())
                unauthenticated = error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
                # The first time the access token of an accepted stream may have expired: send again.
                lost = error.retriable or (unauthenticated and not self._rejected)
                self._rejected = unauthenticated
                self._return_all(ConnectionLostError(error.message) if lost else error)
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)

    async def expire(self) -> None:
        """Until cancelled, fails batches that exceeded the delivery timeout and ends a stream without
        response.
        """
        shortest = min(self._config.delivery_timeout_ms, self._config.request_timeout_ms) / 1000
        while True:
            await asyncio.sleep(min(1.0, shortest / 4))
            if self._buffer.expire(clock.now()):
                self._notify_progress()
            oldest = next(iter(self._in_flight.values()), None)
            if oldest is not None and self._stream is not None and oldest.deadline <= clock.now():
                self._stream.abort(ConnectionLostError("a request timed out"))

    async def _run_stream(self) -> None:
        """Runs one stream; raises the KafkaError that ended it."""
        produce = self._connection.produce.ProduceStream(metadata=self._connection.metadata)
        self._stream = RunningStream(produce, self._write(produce))
        try:
            await self._stream.run(self._complete)
        except KafkaError as error:
            raise _of_transport(error) from None

    async def _write(
        self,
        produce: grpc.aio.StreamStreamCall[
            produce_pb2.ProduceStreamRequest, produce_pb2.ProduceStreamResponse
        ],
    ) -> None:
        while True:
            self._wake.clear()
            ready = self._buffer.drain(clock.now(), flush=self._flushing > 0)
            if ready:
                sent = self._register(ready)
                if await self._identified():
                    await produce.write(self._request(sent))
                continue
            due = self._buffer.next_deadline()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else due - clock.now()):
                    await self._wake.wait()

    def _register(self, ready: list[list[PendingBatch]]) -> Request:
        """Adds a request to those in flight, and returns it."""
        self._last_id += 1
        now = clock.now()
        sent: Request = {(batches[0].topic, batches[0].partition): batches for batches in ready}
        self._in_flight[self._last_id] = _Sent(sent, now + self._config.request_timeout_ms / 1000)
        return sent

    async def _identified(self) -> bool:
        """Requests a producer id if the newest request needs one. If there is none, only this request fails.

        Raises KafkaError SASL_AUTHENTICATION_FAILED, which ends the stream.
        """
        sequences = self._buffer.sequences
        if sequences is None or not sequences.needs_producer_id:
            return True
        try:
            await self._identify(sequences)
        except KafkaError as failure:
            if failure.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            error = _of_transport(failure)
            if error.retriable:
                self._id_warnings.failed(error, clock.now())
            self._return_batches(self._in_flight.pop(self._last_id).batches, error)
            self._notify_progress()
            return False
        self._id_warnings.succeeded()
        return True

    async def _identify(self, sequences: ProducerSequences) -> None:
        """Requests a producer id.

        Raises KafkaError; TOPIC_AUTHORIZATION_FAILED if the client may not write to any topic.
        """
        timeout = min(_IDENTIFIED_WITHIN, self._config.request_timeout_ms / 1000)
        connection = self._connection
        request = InitProducerIdRequest()
        try:
            response = await call(connection.produce.InitProducerId, request, timeout, connection.metadata)
        except KafkaError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise KafkaError(
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The producer may not write to any topic."
                ) from None
            raise
        sequences.begin(response.producer_id, response.producer_epoch)

    def _request(self, sent: Request) -> produce_pb2.ProduceStreamRequest:
        now = clock.now()
        request = produce_pb2.ProduceRequest(timeout_ms=self._config.request_timeout_ms)
        topics: dict[str, produce_pb2.ProduceRequest.TopicData] = {}
        for (name, partition), batches in sent.items():
            self._buffer.number(batches, now)
            for batch in batches:
                batch.sent_at = now
            if name not in topics:
                topics[name] = request.topic_data.add(name=name)
            topics[name].partition_data.add(
                index=partition, records=b"".join(batch.data for batch in batches)
            )
        return produce_pb2.ProduceStreamRequest(id=self._last_id, produce=request)

    def _complete(self, response: produce_pb2.ProduceStreamResponse) -> None:
        self._rejected = False
        self._warnings.succeeded()
        sent = self._in_flight.pop(response.id).batches
        for topic in response.produce.responses:
            for result in topic.partition_responses:
                batches = sent.pop((topic.name, result.index), None)
                if batches is None:
                    continue
                if result.error_code:
                    error = KafkaError(ErrorCode(result.error_code), result.error_message)
                    if error.code in _TOPIC_CHANGED:
                        self._metadata_due.pop(topic.name, None)
                    self._buffer.fail(batches, error, clock.now(), topic.topic_id)
                else:
                    self._buffer.complete(
                        batches, result.base_offset, result.log_append_time_ms, topic.topic_id
                    )
        self._return_batches(
            sent, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The response does not contain the partition.")
        )
        self._notify_progress()

    def _return_all(self, error: KafkaError) -> None:
        in_flight, self._in_flight = self._in_flight, {}
        for sent in in_flight.values():
            self._return_batches(sent.batches, error)
        self._notify_progress()

    def _return_batches(self, sent: Request, error: KafkaError) -> None:
        for batches in sent.values():
            self._buffer.fail(batches, error, clock.now())

    def _notify_progress(self) -> None:
        self._wake.set()
        self._progress.set()

    async def wait_for_room(self) -> None:
        """Waits until the buffer accepts more records. Raises KafkaError REQUEST_TIMED_OUT."""
        try:
            async with asyncio.timeout(self._longest_block):
                while self._buffer.full:
                    await self._wait_for_progress()
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The producer's buffer stayed full.") from None

    @property
    def _longest_block(self) -> float:
        return min(self._config.max_block_ms, self._config.delivery_timeout_ms) / 1000

    async def flush(self) -> None:
        """Sends all batches without lingering and waits until they are complete."""
        self._flushing += 1
        self._wake.set()
        try:
            mine = set(self._buffer.unconfirmed)
            while mine & self._buffer.unconfirmed:
                await self._wait_for_progress()
        finally:
            self._flushing -= 1

    async def _wait_for_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    async def load_metadata(self, topic: str) -> None:
        """Reads the topic's partition count; retries for a moment if the topic is not known yet."""
        started = clock.now()
        deadline = started + self._longest_block
        wait = self._config.retry_backoff_ms / 1000
        unknown: KafkaError | None = None
        while True:
            try:
                self._buffer.set_partitions(topic, await self._partitions(topic, deadline))
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    unknown = error
                    deadline = min(deadline, started + _APPEARS_WITHIN)
                if not error.retriable or clock.now() + wait >= deadline:
                    raise unknown or error from None
            else:
                self._metadata_due[topic] = clock.now() + self._config.metadata_max_age_ms / 1000
                return
            await asyncio.sleep(wait)

    async def _partitions(self, topic: str, deadline: float) -> int:
        remaining = min(max(0.001, deadline - clock.now()), self._config.request_timeout_ms / 1000)
        request = admin_pb2.MetadataRequest(topics=[topic])
        connection = self._connection
        response = await call(connection.admin.Metadata, request, remaining, connection.metadata)
        for found in response.topics:
            if found.error_code:
                raise KafkaError(ErrorCode(found.error_code), f"There is no topic {topic!r}.")
            return len(found.partitions)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic!r}.")

    def needs_metadata(self, topic: str, now: float) -> bool:
        """Whether the topic's partition count is unknown or too old."""
        return now > self._metadata_due.get(topic, _NEVER_READ)


def _of_transport(error: KafkaError) -> KafkaError:
    """Returns ConnectionLostError for an unknown error, which in most cases is a failure of the transport."""
    return ConnectionLostError(error.message) if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else error


class Publishing:
    """Must be created in the event loop. `try_send` may be called from any thread, the rest from the loop."""

    def __init__(self, address: str | Address, config: ProducerConfig) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._connection = Connection(address, config.client_id)
        self._buffer = RecordBuffer(config, self._wake)
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
        record: RecordFields,
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
                return self._traced(traces, topic, partition, timestamp, record, now)
        return self._buffer.append(topic, partition, (timestamp, *record), now)

    def _traced(
        self,
        traces: RecordTraces,
        topic: str,
        partition: int | None,
        timestamp: int,
        record: RecordFields,
        now: float,
    ) -> Publication:
        self._untraced = traces.left_out()
        key, value, headers = record
        size = len(key or b"") + len(value or b"")
        size += sum(len(name) + len(header or b"") for name, header in headers)
        fits = size + traces.header_bytes <= self._config.max_request_size
        span = traces.begin(topic, headers, now) if fits else None
        if span is None:
            return self._buffer.append(topic, partition, (timestamp, *record), now)
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
        """Sends all records at once and waits until the outcome of each is known."""
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
