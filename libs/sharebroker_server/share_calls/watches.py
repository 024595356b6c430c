"""What every watch has in common, and a watch by partitions of several leaders (see Watch)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from sharebroker_server.share_calls.values import Watch


class StandingWatch(ABC):
    """Waits until something ends it."""

    __slots__ = ("_listeners", "quiet")

    def __init__(self) -> None:
        self.quiet = True
        self._listeners: set[Callable[[], None]] = set()

    async def changes(self, timeout: float) -> bool:
        """See Watch."""
        if not self.quiet:
            return True
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[bool] = loop.create_future()
        listener = partial(_settle, changed, True)
        self.tell(listener)
        # A timer of our own: a timeout of asyncio costs more than the rest of an idle fetch.
        timer = loop.call_later(timeout, _settle, changed, False)
        try:
            return await changed
        finally:
            timer.cancel()
            self.tell_no_more(listener)

    def tell(self, listener: Callable[[], None]) -> None:
        """See Watch."""
        self._listeners.add(listener)

    def tell_no_more(self, listener: Callable[[], None]) -> None:
        """See Watch."""
        self._listeners.discard(listener)

    def end(self) -> None:
        """See Watch."""
        if self.quiet:
            self.quiet = False
            self._leave()
            listeners, self._listeners = self._listeners, set()
            for listener in listeners:
                listener()

    @abstractmethod
    def _leave(self) -> None:
        """Stand by no longer; called once."""


class JointWatch(StandingWatch):
    """Over as soon as one of several is."""

    __slots__ = ("_watches",)

    def __init__(self, watches: Sequence[Watch]) -> None:
        super().__init__()
        self._watches = watches
        for watch in watches:
            watch.tell(self.end)

    def _leave(self) -> None:
        for watch in self._watches:
            watch.tell_no_more(self.end)
            watch.end()


def _settle(changed: asyncio.Future[bool], outcome: bool) -> None:
    if not changed.done():
        changed.set_result(outcome)
