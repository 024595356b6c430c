"""The ShareFetch that an idle client sends again and again: answered without being read or served.

Java's client asks twice a second whether there are records. Where a watch stands by the partitions of its
session, that they have none is known before it asks.
"""

from __future__ import annotations

import asyncio
from typing import Final

from libs.clock import now
from libs.kafka_wire.frames import codec, response_frame
from libs.kafka_wire.pattern import ANSWERED, CORRELATION, RequestPattern
from libs.kafka_wire.shapes import Message, response_shapes
from libs.share_calls.values import Watch
from services.gateway.core.sessions import INITIAL_EPOCH, Session
from services.gateway.core.values import SessionKey
from services.gateway.kafka.call import Call, Say, Serve
from services.gateway.service.share_fetch import seconds_of

SHARE_FETCH: Final = 78

_R = response_shapes(SHARE_FETCH)


class QuietFetch:
    """The next request of a session, as it will be if nothing has happened until then (see Expected)."""

    __slots__ = (
        "_answer",
        "_call",
        "_data",
        "_epoch",
        "_loop",
        "_over",
        "_pattern",
        "_revision",
        "_say",
        "_serve",
        "_session",
        "_since",
        "_tick",
        "_wait",
        "_watch",
    )

    def __init__(self, call: Call, session: Session, watch: Watch, say: Say, serve: Serve) -> None:
        how = codec(SHARE_FETCH, call.version)
        gateway = call.gateway
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._watch = watch
        self._say = say
        self._serve = serve
        self._pattern = RequestPattern(how, call.client_id, call.request, "share_session_epoch")
        self._wait = seconds_of(call.request.max_wait_ms)
        self._revision = gateway.catalog.revision
        lock_ms = gateway.lock_timeout_ms(session.key.group_id)
        self._answer = response_frame(0, how, _R.ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms))
        self._tick: int | None = None
        self._over = self._time_is_up
        watch.tell(self.give_up)

    @property
    def waiting(self) -> bool:
        """See Expected."""
        return self._tick is not None

    def take(self, data: bytes) -> bool:
        """See Expected. There still is nothing for it."""
        session = self._session
        if not self._pattern.fits(data, session.epoch) or not self._is_quiet():
            return False
        self._data = data
        self._epoch = session.epoch
        self._call.gateway.sessions.use(session, now())
        self._answer[ANSWERED] = data[CORRELATION]
        self._since = self._loop.time()
        self._tick = self._call.door.ticks.call_later(self._wait, self._over)
        return True

    def give_up(self) -> None:
        """See Expected."""
        if self._tick is None:
            return
        waited = self._loop.time() - self._since
        self.drop()
        self._session.take_back(self._epoch)
        self._serve(self._data, waited)

    def drop(self) -> None:
        """See Expected."""
        self._watch.tell_no_more(self.give_up)
        if self._tick is not None:
            self._call.door.ticks.cancel(self._tick, self._over)
            self._tick = None

    def _time_is_up(self) -> None:
        if not self._is_quiet():
            self.give_up()
            return
        self._tick = None
        self._call.door.counts.quiet[SHARE_FETCH] += 1
        self._say(self._answer[:])

    def _is_quiet(self) -> bool:
        """Also: whether its answer still is right, and given here."""
        call = self._call
        return (
            self._watch.quiet
            and call.gateway.catalog.revision == self._revision
            and call.door.brokers.unchanged(call.view)
        )


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
