"""What waits for the application: records, callbacks to make, errors to raise."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from sharebroker.acks.accumulator import Entry
from sharebroker.client_errors import WakeupError
from sharebroker.errors import KafkaError
from sharebroker.records.record import Record

Duty = Callable[[], None]
_acquisition = attrgetter("acquisition")


@dataclass(slots=True)
class Turn:
    """What the application is to do next: make these calls, in its own thread, then work on these records.

    `pending` are acknowledgements that wait for their outcome, when they were asked for.
    """

    records: list[Record] = field(default_factory=list)
    duties: list[Duty] = field(default_factory=list)
    pending: list[Entry] = field(default_factory=list)


class Mailbox:
    """Filled by the background, emptied by the application's calls; all within one event loop."""

    def __init__(self) -> None:
        self._batches: deque[list[Record]] = deque()
        self._duties: list[Duty] = []
        self._errors: deque[KafkaError] = deque()
        self._woken_up = False
        self._news = asyncio.Event()

    def put_records(self, records: list[Record]) -> None:
        """Records that were acquired together."""
        self._batches.append(records)
        self._news.set()

    def put_duty(self, duty: Duty) -> None:
        """A call for the application to make."""
        self._duties.append(duty)
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

    def take(self, limit: int, *, whole: bool) -> Turn:
        """What there is; at most `limit` records, or rather more to keep the last acquisition `whole`.

        Records that are delivered again stay among themselves: one may be the reason why they failed.
        Raises WakeupError and errors put in. Records whose lock is known to be gone are left out.
        """
        if self._woken_up:
            self._woken_up = False
            raise WakeupError
        duties, self._duties = self._duties, []
        if duties:
            return Turn(duties=duties)
        records: list[Record] = []
        while self._batches and len(records) < limit and (not records or _fresh(self._batches[0])):
            batch = _still_held(self._batches.popleft())
            room = limit - len(records)
            cut = _end_of_acquisition(batch, room) if whole else room
            if cut < len(batch):
                self._batches.appendleft(batch[cut:])
                del batch[cut:]
            records = records + batch if records else batch
            if not _fresh(batch):
                break
        if not records and self._errors:
            raise self._errors.popleft()
        return Turn(records)

    def take_duties(self) -> list[Duty]:
        """Only the calls to make."""
        duties, self._duties = self._duties, []
        return duties

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
    if any(acquisition.lost for acquisition in set(map(_acquisition, batch))):
        return [record for record in batch if not record.lock_lost]
    return batch


def _end_of_acquisition(batch: list[Record], index: int) -> int:
    """Where the acquisition that is cut by `index` (from 1) ends in the batch."""
    if index >= len(batch):
        return index
    acquisition = batch[index - 1].acquisition
    while index < len(batch) and batch[index].acquisition is acquisition:
        index += 1
    return index


def _fresh(batch: list[Record]) -> bool:
    """Whether these are delivered for the first time."""
    return all(record.delivery_count == 1 for record in (*batch[:1], *batch[-1:]))
