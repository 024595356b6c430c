"""The ShareFetch that an idle client sends again and again.

Java's client asks twice a second whether there are records. Where a watch stands by the partitions of its
session, that they have none is known before it asks.
"""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.clock import now
from sharebroker_server.gateway.core.sessions import INITIAL_EPOCH, Session
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.kafka.dispatch.call import Call, Say, Serve
from sharebroker_server.gateway.kafka.idle.response_cache import Next, Quiet
from sharebroker_server.gateway.share.fetch import seconds_of
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes
from sharebroker_server.share_calls.values import RecordsWatch

SHARE_FETCH: Final = 78

_R = response_shapes(SHARE_FETCH)


class QuietFetch(Quiet):
    """The session's next fetch, for which there still is nothing; what comes gives it up."""

    __slots__ = ("_epoch", "_revision", "_session", "_watch")

    def __init__(self, call: Call, session: Session, watch: RecordsWatch, say: Say, serve: Serve) -> None:
        gateway = call.gateway
        lock_ms = gateway.lock_timeout_ms(session.key.group_id)
        answer = _R.ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
        wait = seconds_of(call.request.max_wait_ms)
        super().__init__(call, Next(SHARE_FETCH, answer, wait, "share_session_epoch"), say, serve)
        self._session = session
        self._watch = watch
        self._revision = gateway.catalog.revision
        watch.add_observer(self.give_up)

    def give_up(self) -> None:
        """See Expected."""
        if self.waiting:
            self._session.undo_advance(self._epoch)
        super().give_up()

    def drop(self) -> None:
        """See Expected."""
        self._watch.remove_observer(self.give_up)
        super().drop()

    def _begins(self, data: bytes) -> bool:
        session = self._session
        if not self._pattern.fits(data, session.epoch) or not self._is_empty():
            return False
        self._epoch = session.epoch
        self._call.gateway.sessions.use(session, now())
        return True

    def _holds(self) -> bool:
        return self._is_empty() and self._call.door.brokers.unchanged(self._call.view)

    def _is_empty(self) -> bool:
        return self._watch.quiet and self._call.gateway.catalog.revision == self._revision


def quiet_fetch(call: Call, _: Message, say: Say, serve: Serve) -> QuietFetch | None:
    """What follows a ShareFetch that was answered, where a watch stands by all that its session is about."""
    request = call.request
    session = call.gateway.sessions.get(SessionKey(request.group_id or "", request.member_id or ""))
    if session is None or session.watch is None or session.connection != call.client.connection:
        return None
    changes = request.topics or request.forgotten_topics_data or request.share_session_epoch == INITIAL_EPOCH
    if changes or not session.watch.quiet:
        return None
    return QuietFetch(call, session, session.watch, say, serve)
