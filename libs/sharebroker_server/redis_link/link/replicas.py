"""Holds answers to writes back until replicas have them too (WAIT).

WAIT speaks for all that its connection wrote before, so there is one under way at a time: what is written
meanwhile shares the next. It holds its connection up, which is why writes that wait have one of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sharebroker_server.redis_link.link.errors import RedisError, RedisOutcomeUnknown


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many must have a write before it is answered, and how long they may take (seconds)."""

    count: int
    timeout: float


class Confirmations:
    """What was answered by the primary and not yet by its replicas; `send` sends a command to the primary."""

    def __init__(self, send: Callable[..., asyncio.Future[Any]], replicas: Replicas) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._replicas = replicas
        self._gathered: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]] = []
        self._asking = False

    def hold(self, reply: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """The reply to a write that was just queued, once replicas have it; else RedisOutcomeUnknown."""
        held: asyncio.Future[Any] = self._loop.create_future()
        self._gathered.append((reply, held))
        if not self._asking:
            self._asking = True
            self._loop.call_soon(self._ask)
        return held

    def _ask(self) -> None:
        group, self._gathered = self._gathered, []
        asked = self._send("WAIT", self._replicas.count, round(self._replicas.timeout * 1000))
        asked.add_done_callback(lambda done: self._answered(group, done))

    def _answered(
        self, group: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]], asked: asyncio.Future[Any]
    ) -> None:
        shortage = self._shortage(asked)
        for reply, held in group:
            if not reply.done():  # its script was unknown and was sent again, behind the WAIT
                self._gathered.append((reply, held))
            else:
                _settle(held, reply, shortage)
        self._asking = bool(self._gathered)
        if self._asking:
            self._ask()

    def _shortage(self, asked: asyncio.Future[Any]) -> RedisError | None:
        if asked.exception() is not None:
            return RedisOutcomeUnknown(f"replicas were not heard of: {asked.exception()}")
        if asked.result() >= self._replicas.count:
            return None
        return RedisOutcomeUnknown(
            f"{asked.result()} of {self._replicas.count} replicas had it within {self._replicas.timeout} s"
        )


def _settle(held: asyncio.Future[Any], reply: asyncio.Future[Any], shortage: RedisError | None) -> None:
    error = reply.exception() or shortage
    if held.done():
        return
    if error is not None:
        held.set_exception(error)
    else:
        held.set_result(reply.result())
