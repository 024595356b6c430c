"""Combines state writes and other requests to share coordinators.

`WriteBatcher` combines the state writes of one turn of the event loop: one request per shard. A
share-partition registers with `add` when it has something to write. At the end of the turn the batcher
requests the write, so that everything the turn brought is part of it, and sends it. Each source has at most
one write in flight, which `written` completes.

`RequestBatcher` combines requests of one RPC for one group to one share coordinator in another process. One
request is in flight; those that arrive meanwhile share the next, PARTS_AT_ONCE of them (Kafka:
`PersisterStateManager`).

What happens when a write fails is decided here and in one other place. Here: a write that the shard in this
process did not accept at once is repeated alone through `Persister.write`, which finds the shard's owner,
retries with backoff and, for another process, combines it with other requests to that process. There:
SharePartition receives the final error and rolls back (`WriteCompleted`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice, repeat
from typing import Any, Final, Protocol

import structlog

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_server.leases.names import Shard
from sharebroker_server.persister.port import Begun, Changes, Persister

_log = structlog.get_logger()


class WriteSource(Protocol):
    """A share-partition that has state to write."""

    key: SharePartitionKey
    shard: Shard
    """The shard that stores its state."""
    write_span: Any
    """The span of the write that `next_write` returned last; None if it is not traced."""

    def next_write(self) -> StateWrite | None:
        """Returns what is to be written now; None if nothing has to be."""

    def written(self, error: KafkaError | None) -> None:
        """The write is durable, or failed."""


class WriteBatcher:
    """Collects sources until the end of the turn and sends their writes, one request per shard."""

    def __init__(self, persister: Persister) -> None:
        self._persister = persister
        self._due: dict[Shard, list[WriteSource]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, source: WriteSource) -> None:
        """Registers a source; its `next_write` is called once, at the end of this turn."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._send_all)
        self._due.setdefault(source.shard, []).append(source)

    def _send_all(self) -> None:
        due, self._due = self._due, {}
        for shard, sources in due.items():
            changes, senders = [], []
            for source in sources:
                change = source.next_write()
                if change is None:
                    continue
                if source.write_span is None:
                    changes.append((source.key, change))
                    senders.append(source)
                else:  # in a task, whose requests are part of the span
                    self._send_alone(source, change)
            if senders:
                self._send_together(shard, changes, senders)

    def _send_together(self, shard: Shard, changes: Changes, sources: Sequence[WriteSource]) -> None:
        """Sends to the shard if it is in this process; each write alone if it is not, or fails at once."""
        try:
            begun = self._persister.begin(shard, changes)
        except Exception:
            _log.exception("state writes could not be started", shard=shard, writes=len(changes))
            begun = None
        if begun is None:
            for source, (_, change) in zip(sources, changes, strict=True):
                self._send_alone(source, change)
        else:
            begun.add_done_callback(partial(self._completed, sources, changes))

    def _completed(self, sources: Sequence[WriteSource], changes: Changes, begun: Begun) -> None:
        failure = begun.exception()
        outcomes = begun.result() if failure is None else repeat(failure)
        for source, (_, change), outcome in zip(sources, changes, outcomes, strict=False):
            if isinstance(outcome, Exception):
                self._send_alone(source, change)
                continue
            try:
                source.written(None)
            except Exception:  # must not keep the outcome from the other sources
                _log.exception("completion of a state write failed", key=str(source.key))

    def _send_alone(self, source: WriteSource, change: StateWrite) -> None:
        task = asyncio.create_task(self._write(source, change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, source: WriteSource, change: StateWrite) -> None:
        error = None
        try:
            with nullcontext() if tracing.on is None else tracing.on.within(source.write_span):
                await self._persister.write(source.key, change)
        except KafkaError as failure:
            error = failure
        except Exception:
            _log.exception("state write failed", key=str(source.key))
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        source.written(error)


PARTS_AT_ONCE: Final = 500
"""Partitions of one request. A coordinator in this process serves a request in one turn of the event loop."""

Send = Callable[[Any, float], Awaitable[Any]]
_Requests = dict[SharePartitionKey, tuple[Any, asyncio.Future[Any]]]


class RequestBatcher:
    """Combines the partitions of one group into requests of one RPC. Created on demand, dropped when idle."""

    def __init__(
        self, send: Send, request: Callable[[], Any], group_id: str, on_idle: Callable[[], object]
    ) -> None:
        self._send = send
        self._request = request
        self._group_id = group_id
        self._on_idle = on_idle
        self._waiting: _Requests = {}
        self._trace: TraceContext | None = None
        self._sender: asyncio.Task[None] | None = None

    async def request(self, key: SharePartitionKey, payload: Any, timeout: float) -> Any:
        """Returns the partition's result. Raises KafkaError: the partition's error, or that of the call.

        A second request for a share-partition goes into the message after the one that has the first.
        """
        # A request whose caller was cancelled is replaced: only the later caller waits for the result.
        while key in self._waiting and not self._waiting[key][1].done():
            await asyncio.wait([self._waiting[key][1]])
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = (payload, result)
        if tracing.on is not None:
            self._trace = self._trace or tracing.on.current()
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(timeout))
        return await result

    async def _run(self, timeout: float) -> None:
        try:
            while self._waiting:
                requests = dict(islice(self._waiting.items(), PARTS_AT_ONCE))
                for key in requests:
                    del self._waiting[key]
                # The trace of the first request, not that of the caller that started this task.
                trace, self._trace = self._trace, None
                with nullcontext() if tracing.on is None else tracing.on.within(trace):
                    results = await self._results(requests, timeout)
                for key, (_, result) in requests.items():
                    _resolve(result, results.get(key))
        finally:
            self._sender = None
            self._on_idle()

    async def _results(self, requests: _Requests, timeout: float) -> dict[SharePartitionKey, Any]:
        try:
            response = await self._send(self._build(requests), timeout)
            return {
                SharePartitionKey(self._group_id, topic.topic_id, result.partition): result
                for topic in response.results
                for result in topic.partitions
            }
        except KafkaError as error:
            return dict.fromkeys(requests, error)
        except Exception:
            # Without a result the callers would wait indefinitely: a share-partition has one write in flight.
            _log.exception("request to the share coordinator failed unexpectedly", group=self._group_id)
            return dict.fromkeys(requests, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _build(self, requests: _Requests) -> Any:
        message = self._request()
        topics: dict[str, Any] = {}
        for key, (payload, _) in requests.items():
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = message.topics.add(topic_id=key.topic_id)
            topic.partitions.append(payload)
        return message


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result is None:
        future.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The response lacks the partition."))
    elif isinstance(result, KafkaError):
        future.set_exception(result)
    elif result.error_code:
        future.set_exception(KafkaError(ErrorCode(result.error_code), result.error_message))
    else:
        future.set_result(result)
