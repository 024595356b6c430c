"""Answers that come later than the reply to a command: each under its ticket."""

from __future__ import annotations

import asyncio
from itertools import count

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.group_coordinator.core.consumers.commands import Answered


class Answers:
    """Members of consumer groups that wait for the others."""

    def __init__(self) -> None:
        self._tickets = count(1)
        self._waiting: dict[int, asyncio.Future[Answered]] = {}

    def expect(self) -> tuple[int, asyncio.Future[Answered]]:
        """A ticket, and what will have its answer; `forget` it in the end."""
        ticket = next(self._tickets)
        self._waiting[ticket] = asyncio.get_running_loop().create_future()
        return ticket, self._waiting[ticket]

    def give(self, ticket: int, answer: Answered) -> None:
        """The answer has come; nobody may wait for it any more."""
        waiting = self._waiting.get(ticket)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, KafkaError):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)

    def forget(self, ticket: int) -> None:
        """Nobody waits any more."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.exception()  # looked at: it may have come too late for who waited
