"""The operations of clients and the contents of logs, ordered and checked."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import NamedTuple

from tests.chaos.sequences import WorkSequences
from tests.chaos.sightings import Sighting, Stalls, as_events, unheeded
from tests.testkit.checker.checker import Checker
from tests.testkit.checker.events import (
    Applied,
    Delivered,
    Ended,
    Event,
    Published,
    Requested,
    Share,
    Stored,
    Verdict,
)
from tests.testkit.checker.invariants import Violation
from tests.testkit.checker.locks import Limits


class LogRead(NamedTuple):
    """The result of one reading of the logs: it contains everything written before it `began`."""

    began: float
    ended: float
    events: Sequence[Event]


@dataclass
class History:
    """The history of a run. Clients add to it from any thread; times are seconds since its creation."""

    epoch: float = field(default_factory=time)
    sequences: WorkSequences = field(default_factory=WorkSequences)
    events: list[Event] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    reads: list[LogRead] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)
    accounts: list[Event] = field(default_factory=list)
    """The system's own reports at the end."""
    surfaced: Counter[str] = field(default_factory=Counter)
    """Errors that clients received and that their library did not hide."""
    redelivered: Counter[str] = field(default_factory=Counter)
    """Deliveries after the first one, by group."""
    _request_ids: Iterator[int] = field(default_factory=itertools.count)

    def now(self) -> float:
        """Returns the current time of the history."""
        return time() - self.epoch

    def on_server(self, seconds: float) -> float:
        """Converts a server's time since the Unix epoch."""
        return seconds - self.epoch

    def published(self, sequence: str, topic: str, place: tuple[int, int], value: str) -> None:
        """Records that a producer received the acknowledgement of its record."""
        now = self.now()
        self.events.append(Published(now, topic, *place, value))
        self.sequences.worked((sequence, place[0]), now)

    def delivered(self, event: Delivered) -> None:
        """Records that a member received a record with its lock."""
        self.events.append(event)
        self.redelivered[event.share.group] += event.count > 1

    def sighted(self, sighting: Sighting) -> None:
        """Records that a member received a record by Kafka's protocol."""
        self.sightings.append(sighting)
        self.redelivered[sighting.share.group] += sighting.deliveries > 1

    def requested(self, share: Share, offset: int, token: int, verdict: Verdict) -> int:
        """Records that a member requested an acknowledgement; returns the number of its request."""
        request_id = next(self._request_ids)
        self.events.append(Requested(self.now(), request_id, share, offset, token, verdict))
        return request_id

    def next_request_id(self) -> int:
        """Returns the number of the next request."""
        return next(self._request_ids)

    def applied(self, sequence: str, request_id: int, partition: int, deadline: float = 0.0) -> None:
        """Records that a request succeeded."""
        now = self.now()
        self.events.append(Applied(now, request_id, deadline))
        self.sequences.worked((sequence, partition), now)

    def count(self, verdict: Verdict) -> int:
        """Returns how many such verdicts were confirmed."""
        verdicts = {event.request_id: event.verdict for event in self.events if isinstance(event, Requested)}
        verdicts |= {sighting.request_id: sighting.verdict for sighting in self.sightings}
        return sum(
            verdicts.get(event.request_id) is verdict for event in self.events if isinstance(event, Applied)
        )

    def judged(self, limits: Limits, groups: Sequence[str]) -> Violation | None:
        """Returns the first violation that the checker finds, if any."""
        checker = Checker(limits, groups)
        try:
            for event in self._in_order(limits):
                checker.feed(event)
        except Violation as violation:
            return violation
        return None

    def events_of(self, violation: Violation, limits: Limits) -> list[str]:
        """Returns the events of the offset that a violation names."""
        selected, selected_ids = [], set[int]()
        for event in self._in_order(limits):
            if _names(event, str(violation)):
                selected_ids.add(event.request_id if isinstance(event, Requested) else -1)
                selected.append(event)
            elif isinstance(event, Applied) and event.request_id in selected_ids:
                selected.append(event)
        return [f"{event.at:9.3f} {event}" for event in selected]

    def _in_order(self, limits: Limits) -> Iterator[Event]:
        """Orders requests before the log with their effect, and responses after it.

        A reading contains all log entries from before it began, so it contains the effect of each earlier
        response.
        """
        applied = {event.request_id: event.at for event in self.events if isinstance(event, Applied)}
        deliveries = as_events(self.sightings, applied, Stalls(self.stalls), limits.lock_duration)
        nothing = unheeded(self.sightings, applied)
        events = [e for e in self.events if not (isinstance(e, Applied) and e.request_id in nothing)]
        seen = sorted([*events, *deliveries], key=lambda event: (event.at, isinstance(event, Requested)))
        others = iter([e for e in seen if not isinstance(e, Applied | Ended)])
        responses = iter([e for e in seen if isinstance(e, Applied)])
        other, response = next(others, None), next(responses, None)
        for read in self.reads:
            while other is not None and other.at < read.ended:
                yield other
                other = next(others, None)
            yield from read.events
            while response is not None and response.at <= read.began:
                yield response
                response = next(responses, None)
        yield from (event for event in (other, *others) if event is not None)
        yield from (event for event in (response, *responses) if event is not None)
        yield from self.accounts
        yield Ended(self.now())


def _names(event: Event, text: str) -> bool:
    """Returns whether an event concerns the share-partition offset that a text names."""
    if isinstance(event, Delivered | Requested):
        return f"{event.share} {event.offset}" in text
    runs = event.runs if isinstance(event, Stored) and str(event.share) in text else ()
    named = {int(word.rstrip(":")) for word in text.split() if word.rstrip(":").isdecimal()}
    return any(run.first <= offset <= run.last for run in runs for offset in named)
