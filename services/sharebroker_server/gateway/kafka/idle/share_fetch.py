"""Caches the empty response to the ShareFetch that an idle client repeats.

Java's client fetches twice a second. While an availability observer watches all partitions of the client's
share session, the broker detects new records without serving these fetches.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from sharebroker_protocol.clock import now
from sharebroker_server.gateway.core.share_sessions import INITIAL_EPOCH, Session, SessionKey
from sharebroker_server.gateway.kafka.dispatch.call import Call, Dispatch, Reply
from sharebroker_server.gateway.kafka.idle.response_cache import CachedResponse, Prediction
from sharebroker_server.gateway.share.fetch import seconds_of
from sharebroker_server.kafka_wire.messages import ShareFetchRequest, ShareFetchResponse
from sharebroker_server.leader_calls.values import RecordsWatch

SHARE_FETCH: Final = 78


class CachedFetch(CachedResponse):
    """The empty response to the session's next fetch; new records have the waiting fetch served."""

    __slots__ = ("_epoch", "_revision", "_session", "_watch")

    def __init__(
        self,
        call: Call[ShareFetchRequest],
        session: Session,
        watch: RecordsWatch,
        reply: Reply,
        dispatch: Dispatch,
    ) -> None:
        gateway = call.gateway
        lock_ms = gateway.lock_timeout_ms(session.key.group_id)
        response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
        wait = seconds_of(call.request.max_wait_ms)
        super().__init__(
            call, Prediction(SHARE_FETCH, response, wait, "share_session_epoch"), reply, dispatch
        )
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
        return self._watch.quiet and self._call.gateway.catalog.revision == self._revision


def predict_fetch(
    call: Call[ShareFetchRequest], _: ShareFetchResponse, reply: Reply, dispatch: Dispatch
) -> CachedFetch | None:
    """Returns the prediction of the next fetch if an observer watches all partitions of the session."""
    request = call.request
    session = call.gateway.sessions.get(SessionKey(request.group_id or "", request.member_id or ""))
    if session is None or session.watch is None or session.connection != call.client.connection:
        return None
    changes = request.topics or request.forgotten_topics_data or request.share_session_epoch == INITIAL_EPOCH
    if changes or not session.watch.quiet:
        return None
    return CachedFetch(call, session, session.watch, reply, dispatch)
