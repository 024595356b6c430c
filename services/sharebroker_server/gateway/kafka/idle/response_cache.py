"""Response caches: answer the repeated requests of idle clients without serving them.

An idle client repeats one request: a ShareFetch without records, or a ShareGroupHeartbeat without changes in
its group. Decoding such a request, serving it and encoding the same response again is most of the cost of an
idle client.

After each response the API's `predict` decides whether the next request can be predicted. If so, a
`CachedResponse` keeps a template of the request's bytes and the encoded response.

    predicted ── accept(data): bytes match the template, nothing changed ──> waiting
    predicted ── any other bytes ──> the request is served as usual, and the prediction ends
    waiting ── the wait ends, nothing changed ──> the cached response is sent ──> predicted
    waiting ── the wait ends after a change, `dispatch`, or further bytes ──> the request is served as usual
    either  ── `cancel` ──> ended

Two checks protect the response: `_accepts` when the request arrives, and `_is_current` when the wait ends. A
change between the two must either call `dispatch` (ShareFetch, whose wait is long) or be detected by
`_is_current`.

All responses are sent at the end of a tick (see CoarseTimer), several at a time.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from sharebroker_server.gateway.kafka.dispatch.call import Call, Dispatch, Reply
from sharebroker_server.kafka_wire.frames import codec_of, response_frame
from sharebroker_server.kafka_wire.message_classes import Message
from sharebroker_server.kafka_wire.request_template import CORRELATION, RESPONSE_CORRELATION, RequestTemplate


@dataclass(frozen=True, slots=True)
class Prediction:
    """The request that follows a call: of the API `key`, with this response after `wait` seconds.

    It equals the call's request, except for the field `number` of four bytes, if that is set.
    """

    key: int
    response: Message
    wait: float = 0.0
    number: str | None = None


class CachedResponse(ABC):
    """The response to the predicted request of one connection (see PredictedRequest)."""

    __slots__ = (
        "_call",
        "_content",
        "_data",
        "_dispatch",
        "_key",
        "_loop",
        "_on_end",
        "_reply",
        "_since",
        "_template",
        "_tick",
        "_wait",
    )

    def __init__(self, call: Call[Any], prediction: Prediction, reply: Reply, dispatch: Dispatch) -> None:
        codec = codec_of(prediction.key, call.version)
        self._call = call
        self._key = prediction.key
        self._loop = asyncio.get_running_loop()
        self._reply = reply
        self._dispatch = dispatch
        self._template = RequestTemplate(codec, call.client_id, call.request, prediction.number)
        self._wait = prediction.wait
        self._content = response_frame(0, codec, prediction.response)
        self._tick: int | None = None
        self._on_end = self._end_wait

    @property
    def waiting(self) -> bool:
        """Whether the request has arrived and waits."""
        return self._tick is not None

    def accept(self, data: bytes) -> bool:
        """Starts the wait if the bytes are the predicted request and nothing changed; returns whether it
        did.
        """
        if not self._accepts(data):
            return False
        self._data = data
        self._since = self._loop.time()
        self._tick = self._call.listener.timer.call_at(self._since + self._wait, self._on_end)
        return True

    def dispatch(self) -> None:
        """Has the waiting request served, if there is one."""
        if self._tick is None:
            return
        queued_for = self._loop.time() - self._since
        self.cancel()
        self._dispatch(self._data, queued_for)

    def cancel(self) -> None:
        """Ends the prediction and discards a waiting request."""
        if self._tick is not None:
            self._call.listener.timer.cancel(self._tick, self._on_end)
            self._tick = None

    @abstractmethod
    def _accepts(self, data: bytes) -> bool:
        """Returns whether the bytes are the predicted request and it may wait."""

    @abstractmethod
    def _is_current(self) -> bool:
        """Returns whether nothing changed, so that the cached response is still correct."""

    def _end_wait(self) -> None:
        if not self._is_current():
            self.dispatch()
            return
        self._tick = None
        self._call.listener.metrics.cached[self._key] += 1
        content = self._content[:]
        content[RESPONSE_CORRELATION] = self._data[CORRELATION]
        self._reply(content)
