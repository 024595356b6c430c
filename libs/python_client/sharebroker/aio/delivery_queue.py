"""What waits for the application: records, callbacks to make, errors to raise."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from sharebroker.acks.accumulator import Pending
from sharebroker.client_errors import WakeupError
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.records.record import Acquisition, Record

Callback = Callable[[], None]
_offset = attrgetter("offset")


@dataclass(slots=True)
class Turn:
    """What the application is to do next: make these calls, in its own thread, then work on these records.

    `pending` are acknowledgements that wait for their outcome, when they were asked for.
    """

    records: list[Record] = field(default_factory=list)
    callbacks: list[Callback] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)


class DeliveryQueue:
    """Filled by the background, emptied by the application's calls; all within one event loop."""

    def __init__(self) -> None:
        self._batches: deque[list[Record]] = deque()  # each of one acquisition
        self._callbacks: list[Callback] = []
        self._errors: deque[KafkaError] = deque()
        self._woken_up = False
        self._news = asyncio.Event()

    def put_records(self, records: list[Record]) -> None:
        """Records of one partition, ascending. The list stays as it is: others look at it, too."""
        start = 0
        while start < len(records):
            end = bisect_right(records, records[start].acquisition.last, start, key=_offset)
            self._batches.append(records if end - start == len(records) else records[start:end])
            start = end
        self._news.set()

    def put_callback(self, duty: Callback) -> None:
        """A call for the application to make."""
        self._callbacks.append(duty)
        self._news.set()

    def put_error(self, error: KafkaError) -> None:
        """To be raised once."""
        self._errors.append(error)
        self._news.set()

    def wake_up(self) -> None:
        """Interrupt the wait under way, else the next."""
        self._woken_up = True
        self._news.set()

    def notify(self) -> None:
        """Something that a waiter looks at has changed."""
        self._news.set()

    def clear(self) -> None:
        """Forget the records."""
        self._batches.clear()

    def remove_older(self, moment: float) -> list[Record]:
        """The records that came before `moment` (loop time)."""
        older: list[Record] = []
        while self._batches and self._batches[0][0].acquisition.since < moment:
            older += self._batches.popleft()
        return older

    def take(self, limit: int, *, whole: bool) -> Turn:
        """What there is; at most `limit` records, or rather more to keep the last acquisition `whole`.

        Records that are delivered again stay among those they came with: one may be why they failed.
        Raises WakeupError and errors put in. Records whose lock is known to be gone are left out.
        """
        if self._woken_up:
            self._woken_up = False
            raise WakeupError
        callbacks, self._callbacks = self._callbacks, []
        if callbacks:
            return Turn(callbacks=callbacks)
        records: list[Record] = []
        fresh = True
        while self._batches and len(records) < limit:
            following = self._batches[0][0].acquisition
            fresh = fresh and following.delivery_count == 1
            if records and not fresh and not _came_together(records[-1].acquisition, following):
                break
            batch = self._batches.popleft()
            room = limit - len(records)
            if len(batch) > room and not whole:
                self._batches.appendleft(batch[room:])
                batch = batch[:room]
            held = _still_held(batch)
            records = records + held if records else held
        if not records and self._errors:
            raise self._errors.popleft()
        return Turn(records)

    def take_callbacks(self) -> list[Callback]:
        """Only the calls to make."""
        callbacks, self._callbacks = self._callbacks, []
        return callbacks

    async def wait(self, deadline: float | None) -> bool:
        """Until something is put in, or `deadline` (loop time); False when that came first."""
        self._news.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._news.wait()
        except TimeoutError:
            return False
        return True


def _still_held(batch: list[Record]) -> list[Record]:
    """Without those whose lock is known to be gone. No clock is asked: the server's may be another."""
    if batch[0].acquisition.lost:
        return [record for record in batch if not record.lock_lost]
    return batch


def _came_together(one: Acquisition, other: Acquisition) -> bool:
    """Whether they were acquired, and delivered, at once."""
    return (one.token, one.partition, one.topic_id) == (other.token, other.partition, other.topic_id)
