"""One client's connection: requests one after the other, answers in their order, every wait bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, cast

from sharebroker_server.gateway.kafka.cluster_view.brokers import View
from sharebroker_server.gateway.kafka.connection.memory_budget import Budget, Untaken
from sharebroker_server.gateway.kafka.connection.request_buffer import Incoming
from sharebroker_server.gateway.kafka.connection.response_buffer import Outgoing
from sharebroker_server.gateway.kafka.dispatch.call import Client, Door, Expected
from sharebroker_server.gateway.kafka.dispatch.dispatch import Answer, Asked, answer, read
from sharebroker_server.gateway.share.acknowledge import end_session
from sharebroker_server.kafka_wire.decoder import BadMessage

_numbers = count(1)

AT_A_TIME: Final = 16
"""Requests that one client has served before others get their turn."""


JOINED: Final = 32
"""Requests that are served in one step."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What connections may use. `patience` (seconds) is for the rest of a request, and for taking an answer.

    `max_idle` is for a client that wants nothing, None for ever.
    """

    max_request_bytes: int
    requests: Budget
    answers: Untaken
    max_idle: float | None
    patience: float = 30.0
    tls: bool = False

    @property
    def calm(self) -> float:
        """Seconds in which nothing can be late of a client that was heard and left nothing half said."""
        return self.patience if self.max_idle is None else min(self.patience, self.max_idle)


class Connection(asyncio.Protocol):
    """Made by the listening socket for each client; `ended` is called once when it is over.

    Requests are served by a task that lives while there are any: an idle client has none. `check` is to be
    called now and then.
    """

    def __init__(self, door: Door, limits: Limits, ended: Callable[[Connection], None]) -> None:
        self.task: asyncio.Task[None] | None = None
        self._door = door
        self._limits = limits
        self._ended = ended
        self._client = Client(f"kafka-{next(_numbers)}", "")
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self._expected: Expected | None = None
        self._waited = 0.0
        self._waiting = False
        self._made = False
        self._closing = False
        self._staying = False
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._incoming = Incoming(self._transport, self._limits.max_request_bytes, self._limits.requests)
        self._outgoing = Outgoing(self._transport, self._limits.answers, self._make_room)
        peer = transport.get_extra_info("peername")
        self._client.host = f"/{peer[0]}" if peer else "/unknown"
        self._made = True
        self._tls = transport.get_extra_info("sslcontext") is not None
        if self._closing:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        """Serves what is complete."""
        if self._closing:
            return
        self._active_at = self._loop.time()
        if self._expected is not None and self._is_expected(self._expected, data):
            return
        try:
            self._incoming.take(data, self._active_at)
        except BadMessage as error:
            self._complain(str(error))
            self._closing = True
        self._go_on()

    def eof_received(self) -> bool:
        """A client that says no more wants no more: what it asked is done, what it would wait for is not."""
        self._closing = True
        self._go_on()
        return not self._tls

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends a wait that only this client wanted; what runs is finished first."""
        self._lost = True
        self._outgoing.resume()
        self.close()

    def pause_writing(self) -> None:
        """The client does not read as fast as it asks."""
        self._outgoing.pause(self._loop.time())

    def resume_writing(self) -> None:
        """It has read."""
        self._outgoing.resume()

    def close(self, *, hang_up: bool = True) -> None:
        """Stop serving: what waits is cut off, what runs is finished first. Then `hang_up`, if so wanted."""
        self._closing = True
        self._staying = not hang_up
        if self._made:
            self._incoming.end()
            self._go_on()

    def hang_up(self) -> None:
        """Cut the client off, once it has what it was answered."""
        if self._made:
            self._outgoing.flush()
            self._transport.close()
        else:
            self.close()

    def check(self, now: float) -> None:
        """Close where the client kept silent for too long."""
        limits = self._limits
        if not self._made:  # the loop has it, and its client has just come
            if limits.tls and now - self._active_at > limits.patience:
                self._ended(self)  # or it did not agree on TLS: then nobody hears of it again
            return
        if now - self._active_at < limits.calm and self._incoming.empty and not self._outgoing.full:
            return
        if self._outgoing.late(now, limits.patience):
            self._drop("its client does not read answers")
        elif self._incoming.late(now, limits.patience):
            self._drop("the rest of a request did not come")
        elif self._wants_nothing and limits.max_idle is not None and now - self._active_at > limits.max_idle:
            self._drop("it was idle for too long")

    @property
    def _wants_nothing(self) -> bool:
        return self.task is None and not (self._expected is not None and self._expected.waiting)

    def _is_expected(self, expected: Expected, data: bytes) -> bool:
        """Whether nothing is to be done but to wait, as the last time."""
        if expected.waiting:  # something else comes: it is to be served after what waits
            expected.give_up()
            return False
        return self.task is None and self._incoming.empty and not self._outgoing.full and expected.take(data)

    def _say(self, content: bytearray) -> None:
        self._active_at = self._loop.time()
        self._outgoing.write(content, more=False)

    def _serve_after(self, data: bytes, waited: float) -> None:
        """What was expected has come, and something else as well."""
        self._waited = waited
        self._incoming.take(data, self._loop.time())
        self._go_on()

    def _go_on(self) -> None:
        if self._closing and self._expected is not None:
            self._expected.drop()
            self._expected = None
        if self.task is not None:
            if self._closing and self._waiting:
                self.task.cancel()
        elif self._incoming:
            self.task = self._loop.create_task(self._serve())
        elif self._lost:
            self._end_sessions()
            self._ended(self)
        elif self._staying:
            self._end_sessions()
        elif self._closing:
            self.hang_up()

    async def _serve(self) -> None:
        try:
            await self._serve_all()
        except BadMessage as error:
            self._complain(str(error))
            self._closing = True
            self._incoming.end()
        except asyncio.CancelledError:
            pass
        except Exception as error:  # what was asked next would fail as well
            self._door.complaints.tell("a connection failed", failed=error, client=self._client.host)
            self._closing = True
            self._incoming.end()
        finally:
            self.task = None
            self._waiting = False
            self._active_at = self._loop.time()
            self._go_on()

    async def _serve_all(self) -> None:
        turn = 0
        while self._incoming:
            view = await self._door.brokers.view()
            some = self._next(view)
            try:
                await self._answer(some)
            finally:
                self._incoming.done(sum(one.size for one in some))
            await self._outgoing.drained()
            turn += 1
            if turn % AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _next(self, view: View) -> list[Asked]:
        """The request that came first, and those right behind it that it can be joined with."""
        some = [self._read(view, self._incoming.next())]
        while some[0].api.joined is not None and self._incoming and len(some) < JOINED:
            try:
                another = self._read(view, self._incoming.first)
            except BadMessage:  # it ends the connection when its turn comes
                break
            if not another.joins(some[0]):
                break
            self._incoming.next()
            some.append(another)
        return some

    def _read(self, view: View, frame: bytes) -> Asked:
        waited, self._waited = self._waited, 0.0
        return read(self._door, self._client, view, frame, waited)

    async def _answer(self, some: list[Asked]) -> None:
        self._waiting = some[0].api.waits
        if self._waiting and self._closing:
            return
        answers = await answer(some)
        self._waiting = False
        self._expect_after(some[0], answers[0])
        for one in answers:
            if one is not None and not self._transport.is_closing():
                self._outgoing.write(one.content, more=bool(self._incoming))

    def _expect_after(self, asked: Asked, answer: Answer | None) -> None:
        if self._expected is not None:
            self._expected.drop()
            self._expected = None
        if asked.api.expected is not None and answer is not None:
            self._expected = asked.api.expected(asked.call, answer.message, self._say, self._serve_after)

    def _drop(self, reason: str) -> None:
        self._complain(reason)
        self._transport.abort()

    def _make_room(self) -> None:
        self._drop("its client does not read answers, and others need their room")

    def _complain(self, reason: str) -> None:
        self._door.complaints.tell(
            "closed a connection", client=self._client.host, software=self._client.software, reason=reason
        )

    def _end_sessions(self) -> None:
        """Kafka: a disconnect ends the sessions of the connection, and their records are released."""
        gateway = self._door.gateway
        for session in gateway.sessions.disconnect(self._client.connection):
            end_session(gateway, session)
