"""Replies to members of consumer groups that wait for other members."""

from __future__ import annotations

import asyncio
from itertools import count

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c


class DeferredReplies:
    """The members of consumer groups that wait for other members, by reply id."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[c.DeferredResult]] = {}

    def expect(self) -> tuple[int, asyncio.Future[c.DeferredResult]]:
        """Returns a new reply id and the future of its reply; the caller must `forget` the id in the end."""
        reply_id = next(self._ids)
        self._waiting[reply_id] = asyncio.get_running_loop().create_future()
        return reply_id, self._waiting[reply_id]

    def resolve(self, reply_id: int, result: c.DeferredResult) -> None:
        """Completes the future of a reply; a forgotten id is ignored."""
        waiting = self._waiting.get(reply_id)
        if waiting is None or waiting.done():
            return
        if isinstance(result, KafkaError):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    def forget(self, reply_id: int) -> None:
        """Removes a reply id."""
        waiting = self._waiting.pop(reply_id, None)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.exception()  # marks the error as retrieved: it may have arrived after the caller left
