"""A request that an idle client sends again and again: answered as the last time, without being served."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass

from sharebroker_server.gateway.kafka.dispatch.call import Call, Say, Serve
from sharebroker_server.kafka_wire.frames import codec, response_frame
from sharebroker_server.kafka_wire.message_classes import Message
from sharebroker_server.kafka_wire.request_template import ANSWERED, CORRELATION, RequestPattern


@dataclass(frozen=True, slots=True)
class Next:
    """What is expected behind a call: a request of the API `key`, which waits for so many seconds.

    It differs from the call's in `number`, if that is the name of a field of four bytes.
    """

    key: int
    answer: Message
    wait: float = 0.0
    number: str | None = None


class Quiet(ABC):
    """The next request, as it will be if nothing has happened until then (see Expected).

    All of them are answered at the end of a tick, several at a time (see Ticks).
    """

    __slots__ = (
        "_answer",
        "_call",
        "_data",
        "_key",
        "_loop",
        "_over",
        "_pattern",
        "_say",
        "_serve",
        "_since",
        "_tick",
        "_wait",
    )

    def __init__(self, call: Call, expected: Next, say: Say, serve: Serve) -> None:
        how = codec(expected.key, call.version)
        self._call = call
        self._key = expected.key
        self._loop = asyncio.get_running_loop()
        self._say = say
        self._serve = serve
        self._pattern = RequestPattern(how, call.client_id, call.request, expected.number)
        self._wait = expected.wait
        self._answer = response_frame(0, how, expected.answer)
        self._tick: int | None = None
        self._over = self._time_is_up

    @property
    def waiting(self) -> bool:
        """See Expected."""
        return self._tick is not None

    def take(self, data: bytes) -> bool:
        """See Expected."""
        if not self._begins(data):
            return False
        self._data = data
        self._since = self._loop.time()
        self._tick = self._call.door.ticks.call_at(self._since + self._wait, self._over)
        return True

    def give_up(self) -> None:
        """See Expected."""
        if self._tick is None:
            return
        waited = self._loop.time() - self._since
        self.drop()
        self._serve(self._data, waited)

    def drop(self) -> None:
        """See Expected."""
        if self._tick is not None:
            self._call.door.ticks.cancel(self._tick, self._over)
            self._tick = None

    @abstractmethod
    def _begins(self, data: bytes) -> bool:
        """Whether the bytes are that request, and it may wait."""

    @abstractmethod
    def _holds(self) -> bool:
        """Whether nothing has happened until now: its answer still is right, and given here."""

    def _time_is_up(self) -> None:
        if not self._holds():
            self.give_up()
            return
        self._tick = None
        self._call.door.counts.quiet[self._key] += 1
        answer = self._answer[:]
        answer[ANSWERED] = self._data[CORRELATION]
        self._say(answer)
