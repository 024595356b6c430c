"""One kind of call for one group to one coordinator: at most one request under way, the rest gathers.

Source: Kafka's `PersisterStateManager`, which batches in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_protocol.tracing import enabled
from sharebroker_protocol.tracing.context import TraceContext

_logger = logging.getLogger(__name__)

Send = Callable[[Any, float], Awaitable[Any]]
_Asked = dict[SharePartitionKey, tuple[Any, asyncio.Future[Any]]]


class Lane:
    """Gathers the partitions of one group into requests of one RPC. Made when needed, dropped when idle."""

    def __init__(
        self, send: Send, request: Callable[[], Any], group_id: str, on_idle: Callable[[], object]
    ) -> None:
        self._send = send
        self._request = request
        self._group_id = group_id
        self._on_idle = on_idle
        self._waiting: _Asked = {}
        self._traced: TraceContext | None = None
        self._sender: asyncio.Task[None] | None = None

    async def ask(self, key: SharePartitionKey, payload: Any, timeout: float) -> Any:
        """The partition's part of the answer. Raises KafkaError: its error code, or the failure of the call.

        A second question about a share-partition goes into the request after the one that has the first.
        """
        # What its caller gave up makes room: the answer to this question is the one that somebody waits for.
        while key in self._waiting and not self._waiting[key][1].done():
            await asyncio.wait([self._waiting[key][1]])
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = (payload, answer)
        if enabled.on is not None:
            self._traced = self._traced or enabled.on.current()
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(timeout))
        return await answer

    async def _run(self, timeout: float) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                # The first one's trace, not that of whoever was there when this task began.
                with nullcontext() if enabled.on is None else enabled.on.within(self._take_trace()):
                    results = await self._results(asked, timeout)
                for key, (_, answer) in asked.items():
                    _settle(answer, results.get(key))
        finally:
            self._sender = None
            self._on_idle()

    def _take_trace(self) -> TraceContext | None:
        traced, self._traced = self._traced, None
        return traced

    async def _results(self, asked: _Asked, timeout: float) -> dict[SharePartitionKey, Any]:
        try:
            return self._by_key(await self._send(self._build(asked), timeout))
        except KafkaError as error:
            return dict.fromkeys(asked, error)
        except Exception:
            # Whoever asked would else wait for ever: a share-partition writes nothing while it waits.
            _logger.exception("a call to a share coordinator failed unexpectedly")
            return dict.fromkeys(asked, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _build(self, asked: _Asked) -> Any:
        request = self._request()
        topics: dict[str, Any] = {}
        for key, (payload, _) in asked.items():
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = request.topics.add(topic_id=key.topic_id)
            topic.partitions.append(payload)
        return request

    def _by_key(self, response: Any) -> dict[SharePartitionKey, Any]:
        return {
            SharePartitionKey(self._group_id, topic.topic_id, result.partition): result
            for topic in response.results
            for result in topic.partitions
        }


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result is None:
        answer.set_exception(
            KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The coordinator left the partition out.")
        )
    elif isinstance(result, KafkaError):
        answer.set_exception(result)
    elif result.error_code:
        answer.set_exception(KafkaError(ErrorCode(result.error_code), result.error_message))
    else:
        answer.set_result(result)
