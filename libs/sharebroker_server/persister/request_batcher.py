"""Combines requests of one RPC for one group to one share coordinator.

One request is in flight; those that arrive meanwhile share the next.

Source: Kafka's `PersisterStateManager`, which batches in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import structlog

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_protocol.tracing.context import TraceContext

_log = structlog.get_logger()

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
                requests, self._waiting = self._waiting, {}
                # The trace of the first request, not that of the caller that started this task.
                with nullcontext() if tracing.on is None else tracing.on.within(self._pop_trace()):
                    results = await self._results(requests, timeout)
                for key, (_, result) in requests.items():
                    _resolve(result, results.get(key))
        finally:
            self._sender = None
            self._on_idle()

    def _pop_trace(self) -> TraceContext | None:
        trace, self._trace = self._trace, None
        return trace

    async def _results(self, requests: _Requests, timeout: float) -> dict[SharePartitionKey, Any]:
        try:
            return self._by_key(await self._send(self._build(requests), timeout))
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

    def _by_key(self, response: Any) -> dict[SharePartitionKey, Any]:
        return {
            SharePartitionKey(self._group_id, topic.topic_id, result.partition): result
            for topic in response.results
            for result in topic.partitions
        }


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
