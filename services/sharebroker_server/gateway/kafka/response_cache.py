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
from typing import Any, ClassVar, Final

from typing_extensions import override

from sharebroker_protocol.clock import now
from sharebroker_server.gateway.core.share_sessions import INITIAL_EPOCH, ShareSession
from sharebroker_server.gateway.kafka.call import Call, Dispatch, Reply
from sharebroker_server.gateway.kafka.share_sessions import session_key
from sharebroker_server.gateway.share.fetch import seconds_of
from sharebroker_server.kafka_wire.frames import (
    CORRELATION,
    RESPONSE_CORRELATION,
    RequestTemplate,
    codec_of,
    response_frame,
)
from sharebroker_server.kafka_wire.messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.leader_calls.values import RecordsWatch


class CachedResponse(ABC):
    """The response to the predicted request of one connection (see PredictedRequest).

    The request that follows a call is of the same API and equals the call's request, except for the field
    `number` of four bytes, if that is set. `wait` is in seconds.
    """

    key: ClassVar[int]
    """The key of the API."""
    number: ClassVar[str | None] = None

    __slots__ = (
        "_call",
        "_content",
        "_data",
        "_dispatch",
        "_loop",
        "_on_end",
        "_reply",
        "_since",
        "_template",
        "_tick",
        "_wait",
    )

    def __init__(
        self, call: Call[Any], response: Message, reply: Reply, dispatch: Dispatch, wait: float = 0.0
    ) -> None:
        codec = codec_of(self.key, call.version)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._reply = reply
        self._dispatch = dispatch
        self._template = RequestTemplate(codec, call.client_id, call.request, self.number)
        self._wait = wait
        self._content = response_frame(0, codec, response)
        self._tick: int | None = None
        self._on_end = self._end_wait

    @property
    def waiting(self) -> bool:
        """Whether the request has arrived and waits."""
        return self._tick is not None

    def accept(self, data: bytes) -> bool:
        """Starts the wait if the bytes are the predicted request and nothing changed.

        Returns whether it did.
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
        self._call.listener.metrics.cached[self.key] += 1
        content = self._content[:]
        content[RESPONSE_CORRELATION] = self._data[CORRELATION]
        self._reply(content)


SHARE_FETCH: Final = 78


class CachedFetch(CachedResponse):
    """The empty response to the session's next fetch; new records have the waiting fetch served.

    Java's client fetches twice a second. While an availability observer watches all partitions of the
    client's share session, the broker detects new records without serving these fetches.
    """

    key = SHARE_FETCH
    number = "share_session_epoch"

    __slots__ = ("_epoch", "_revision", "_session", "_watch")

    def __init__(
        self,
        call: Call[ShareFetchRequest],
        session: ShareSession,
        watch: RecordsWatch,
        reply: Reply,
        dispatch: Dispatch,
    ) -> None:
        gateway = call.gateway
        lock_ms = gateway.catalog.lock_timeout_ms(session.key.group_id)
        response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
        super().__init__(call, response, reply, dispatch, seconds_of(call.request.max_wait_ms))
        self._session = session
        self._watch = watch
        self._revision = gateway.catalog.revision
        watch.add_observer(self.dispatch)

    @override
    def dispatch(self) -> None:
        if self.waiting:
            self._session.undo_advance(self._epoch)
        super().dispatch()

    @override
    def cancel(self) -> None:
        self._watch.remove_observer(self.dispatch)
        super().cancel()

    @override
    def _accepts(self, data: bytes) -> bool:
        session = self._session
        if not self._template.matches(data, session.epoch) or not self._is_empty():
            return False
        self._epoch = session.epoch
        self._call.gateway.sessions.use(session, now())
        return True

    @override
    def _is_current(self) -> bool:
        return self._is_empty() and self._call.listener.brokers.unchanged(self._call.view)

    def _is_empty(self) -> bool:
        return self._watch.active and self._call.gateway.catalog.revision == self._revision


def predict_fetch(
    call: Call[ShareFetchRequest], _: ShareFetchResponse, reply: Reply, dispatch: Dispatch
) -> CachedFetch | None:
    """Returns the prediction of the next fetch if an observer watches all partitions of the session."""
    request = call.request
    session = call.gateway.sessions.get(session_key(call))
    if session is None or session.watch is None or session.connection != call.client.connection:
        return None
    changes = request.topics or request.forgotten_topics_data or request.share_session_epoch == INITIAL_EPOCH
    if changes or not session.watch.active:
        return None
    return CachedFetch(call, session, session.watch, reply, dispatch)


HEARTBEAT: Final = 76


class CachedHeartbeat(CachedResponse):
    """The response to a heartbeat that equals the previous one, which did not change the member's epoch.

    The coordinator, if it runs in this process, confirms that nothing in the group changed. After any change
    of the catalog the heartbeat is served again, since its permissions may have changed.
    """

    key = HEARTBEAT

    __slots__ = ("_revision",)

    def __init__(
        self, call: Call[ShareGroupHeartbeatRequest], response: Message, reply: Reply, dispatch: Dispatch
    ) -> None:
        super().__init__(call, response, reply, dispatch)
        self._revision = call.gateway.catalog.revision

    @override
    def _accepts(self, data: bytes) -> bool:
        return self._template.matches(data)

    @override
    def _is_current(self) -> bool:
        call = self._call
        request = call.request
        return (
            call.gateway.catalog.revision == self._revision  # a change may be one of the ACLs
            and call.listener.brokers.unchanged(call.view)
            and call.gateway.router.stays(request.group_id, request.member_id, request.member_epoch)
        )


def predict_heartbeat(
    call: Call[ShareGroupHeartbeatRequest],
    response: ShareGroupHeartbeatResponse,
    reply: Reply,
    dispatch: Dispatch,
) -> CachedHeartbeat | None:
    """Returns the prediction of the next heartbeat if this one did not change the member's epoch."""
    epoch = call.request.member_epoch
    if epoch <= 0 or response.member_epoch != epoch:
        return None
    return CachedHeartbeat(call, response, reply, dispatch)
