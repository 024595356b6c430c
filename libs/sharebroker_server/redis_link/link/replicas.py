"""Delays the replies to writes until replicas have the writes (WAIT).

WAIT covers all earlier writes of its connection, so one WAIT is in flight at a time; writes that arrive
meanwhile share the next. WAIT blocks its connection, so replicated writes use a connection of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sharebroker_server.redis_link.link.errors import RedisError, RedisOutcomeUnknown


@dataclass(frozen=True, slots=True)
class Replicas:
    """The number of replicas that must have a write, and the seconds to wait for them."""

    count: int
    timeout: float


class Confirmations:
    """Replies of the primary that its replicas have not confirmed; `send` sends a command to the primary."""

    def __init__(self, send: Callable[..., asyncio.Future[Any]], replicas: Replicas) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._replicas = replicas
        self._pending: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]] = []
        self._in_flight = False

    def hold(self, reply: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Returns the reply to a write once replicas have it, else RedisOutcomeUnknown."""
        held: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append((reply, held))
        if not self._in_flight:
            self._in_flight = True
            self._loop.call_soon(self._wait)
        return held

    def _wait(self) -> None:
        group, self._pending = self._pending, []
        confirmed = self._send("WAIT", self._replicas.count, round(self._replicas.timeout * 1000))
        confirmed.add_done_callback(lambda done: self._confirmed(group, done))

    def _confirmed(
        self, group: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]], confirmed: asyncio.Future[Any]
    ) -> None:
        shortage = self._shortage(confirmed)
        for reply, held in group:
            if not reply.done():  # the server lacked the script; the EVAL follows the WAIT
                self._pending.append((reply, held))
            else:
                _resolve(held, reply, shortage)
        self._in_flight = bool(self._pending)
        if self._in_flight:
            self._wait()

    def _shortage(self, confirmed: asyncio.Future[Any]) -> RedisError | None:
        if confirmed.exception() is not None:
            return RedisOutcomeUnknown(f"the replicas did not confirm the write: {confirmed.exception()}")
        if confirmed.result() >= self._replicas.count:
            return None
        return RedisOutcomeUnknown(
            f"{confirmed.result()} of {self._replicas.count} replicas confirmed the write "
            f"within {self._replicas.timeout} s"
        )


def _resolve(held: asyncio.Future[Any], reply: asyncio.Future[Any], shortage: RedisError | None) -> None:
    error = reply.exception() or shortage
    if held.done():
        return
    if error is not None:
        held.set_exception(error)
    else:
        held.set_result(reply.result())
