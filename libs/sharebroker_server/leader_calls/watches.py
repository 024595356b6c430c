"""The parts that every records watch shares, and a watch of partitions of several leaders."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from sharebroker_server.leader_calls.values import RecordsWatch


class BaseWatch(ABC):
    """A `RecordsWatch` that lasts until a call of `end`."""

    __slots__ = ("_observers", "active")

    def __init__(self) -> None:
        self.active = True
        self._observers: set[Callable[[], None]] = set()

    async def changes(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds until there may be records; False if nothing changed."""
        if not self.active:
            return True
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[bool] = loop.create_future()
        observer = partial(_resolve, changed, True)
        self.add_observer(observer)
        # `asyncio.timeout` would cost more than the rest of an idle fetch.
        timer = loop.call_later(timeout, _resolve, changed, False)
        try:
            return await changed
        finally:
            timer.cancel()
            self.remove_observer(observer)

    def add_observer(self, observer: Callable[[], None]) -> None:
        """Calls `observer` once when the watch ends."""
        self._observers.add(observer)

    def remove_observer(self, observer: Callable[[], None]) -> None:
        """Undoes `add_observer`."""
        self._observers.discard(observer)

    def end(self) -> None:
        """Ends the watch and calls its observers."""
        if self.active:
            self.active = False
            self._stop()
            observers, self._observers = self._observers, set()
            for observer in observers:
                observer()

    @abstractmethod
    def _stop(self) -> None:
        """Releases what the watch waits on; called once."""


class JointWatch(BaseWatch):
    """Ends as soon as one of several watches ends."""

    __slots__ = ("_watches",)

    def __init__(self, watches: Sequence[RecordsWatch]) -> None:
        super().__init__()
        self._watches = watches
        for watch in watches:
            watch.add_observer(self.end)
        if not all(watch.active for watch in watches):
            self.end()

    def _stop(self) -> None:
        for watch in self._watches:
            watch.remove_observer(self.end)
            watch.end()


def _resolve(changed: asyncio.Future[bool], outcome: bool) -> None:
    if not changed.done():
        changed.set_result(outcome)
