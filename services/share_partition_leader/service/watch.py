"""A watch by share-partitions that have no records (libs.share_calls.values.Watch)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from services.share_partition_leader.service.share_group_partition import ShareGroupPartition


class ShareWatch:
    """Waits at every share-partition at once; what one of them tells ends it."""

    __slots__ = ("_listeners", "_share_partitions", "quiet")

    def __init__(self, share_partitions: Sequence[ShareGroupPartition]) -> None:
        self.quiet = True
        self._share_partitions = share_partitions
        self._listeners: set[Callable[[], None]] = set()
        for share_partition in share_partitions:
            share_partition.wait(self)

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
            for share_partition in self._share_partitions:
                share_partition.wait_no_more(self)
            listeners, self._listeners = self._listeners, set()
            for listener in listeners:
                listener()

    def look_again(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self.end()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """Another one is to be asked."""
        self.end()


def _settle(changed: asyncio.Future[bool], outcome: bool) -> None:
    if not changed.done():
        changed.set_result(outcome)
