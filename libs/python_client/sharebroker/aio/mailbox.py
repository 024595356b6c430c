"""What waits for the application: records, callbacks to make, errors to raise."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from sharebroker import clock
from sharebroker.client_errors import WakeupError
from sharebroker.errors import KafkaError
from sharebroker.records.record import Record

Duty = Callable[[], None]
_acquisition = attrgetter("acquisition")


@dataclass(slots=True)
class Turn:
    """What the application is to do next: make these calls, in its own thread, then work on these records."""

    records: list[Record] = field(default_factory=list)
    duties: list[Duty] = field(default_factory=list)


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
        """What there is; about `limit` records, or at most as many unless batches stay `whole`.

        Raises WakeupError and errors put in. Records whose lock has run out are left out.
        """
        if self._woken_up:
            self._woken_up = False
            raise WakeupError
        duties, self._duties = self._duties, []
        if duties:
            return Turn(duties=duties)
        records: list[Record] = []
        while self._batches and len(records) < limit:
            batch = _still_held(self._batches.popleft())
            room = limit - len(records)
            if len(batch) > room and not whole:
                self._batches.appendleft(batch[room:])
                del batch[room:]
            records = records + batch if records else batch
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
    now = clock.now()
    acquisitions = set(map(_acquisition, batch))
    if all(now < a.deadline and not a.lost and not a.renewed for a in acquisitions):
        return batch
    return [record for record in batch if not record.lock_lost and now < record.deadline]
