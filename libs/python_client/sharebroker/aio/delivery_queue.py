"""The queue of records, callbacks and errors for the application."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from sharebroker.client_errors import WakeupError
from sharebroker.consumer.accumulator import Pending
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.records.record import AcquiredRecords, Record

Callback = Callable[[], None]
_offset = attrgetter("offset")


@dataclass(slots=True)
class Turn:
    """The result of a wait: the application runs the callbacks, then receives the records."""

    records: list[Record] = field(default_factory=list)
    callbacks: list[Callback] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    """Acknowledgements without an outcome; set only by `ConsumerEngine.pending`."""


class DeliveryQueue:
    """Filled by the background tasks, emptied by the application's calls, within one event loop."""

    def __init__(self) -> None:
        self._batches: deque[list[Record]] = deque()  # each of one acquisition
        self._callbacks: list[Callback] = []
        self._errors: deque[KafkaError] = deque()
        self._woken_up = False
        self._changed = asyncio.Event()

    def put_records(self, records: list[Record]) -> None:
        """Adds records of one partition in ascending order. The list is not changed: the caller keeps it."""
        start = 0
        while start < len(records):
            end = bisect_right(records, records[start].acquisition.last, start, key=_offset)
            self._batches.append(records if end - start == len(records) else records[start:end])
            start = end
        self._changed.set()

    def put_callback(self, callback: Callback) -> None:
        """Adds a callback for the application to run."""
        self._callbacks.append(callback)
        self._changed.set()

    def put_error(self, error: KafkaError) -> None:
        """Adds an error; it is raised once, after the records before it."""
        self._errors.append(error)
        self._changed.set()

    def wake_up(self) -> None:
        """Interrupts the current wait, or otherwise the next one, with WakeupError."""
        self._woken_up = True
        self._changed.set()

    def notify(self) -> None:
        """Wakes the call that waits, because a condition it waits for may have changed."""
        self._changed.set()

    def clear(self) -> None:
        """Removes all records."""
        self._batches.clear()

    def records(self) -> Iterator[Record]:
        """Returns the records that no call has returned."""
        return chain.from_iterable(self._batches)

    def remove_older(self, moment: float) -> list[Record]:
        """Removes and returns the records that arrived before `moment` (loop time)."""
        older: list[Record] = []
        while self._batches and self._batches[0][0].acquisition.since < moment:
            older += self._batches.popleft()
        return older

    def next_turn(self, limit: int, *, whole: bool) -> Turn:
        """Returns callbacks if there are any, otherwise up to `limit` records.

        With `whole` it may exceed `limit` to return a complete acquisition. Redelivered records are returned
        only with those of the same delivery, because one of them may be the poison record. Records with a
        lost lock are left out. Raises WakeupError and queued errors.
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
            if records and not fresh and not _same_delivery(records[-1].acquisition, following):
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

    def pop_callbacks(self) -> list[Callback]:
        """Removes and returns the callbacks."""
        callbacks, self._callbacks = self._callbacks, []
        return callbacks

    async def wait(self, deadline: float | None) -> bool:
        """Waits until the queue changes; returns False if `deadline` (loop time) passed first."""
        self._changed.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


def _still_held(batch: list[Record]) -> list[Record]:
    """Filters records without a known lost lock. The deadline is not compared: clocks may differ."""
    if batch[0].acquisition.lost:
        return [record for record in batch if not record.lock_lost]
    return batch


def _same_delivery(first: AcquiredRecords, second: AcquiredRecords) -> bool:
    """Whether two acquisitions were made, and delivered, together."""
    return (first.token, first.partition, first.topic_id) == (second.token, second.partition, second.topic_id)
