"""Deliveries by Kafka's protocol, which has no lock tokens: the order of an offset's deliveries is
inferred.

A client buffers records, and its application may receive them after another member's. A confirmed
acknowledgement stores the delivery count, and later acquisitions have higher ones. A delivery with a lower
count that arrives afterwards had therefore been buffered, and precedes it. Equal counts prove nothing.

Where several orders are possible, the one without a violation is chosen; a history that no order explains is
left to the checker. Tokens are negative, so that the checker never treats two of them as acquisitions of one
leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from tests.testkit.checker.events import Delivered, Event, Requested, Share, Verdict

_FIRST_TOKEN: Final = -(2**32)
_ON_THE_WAY: Final = 2.0
"""Seconds that a response may need to reach a client while nothing is stalled."""


class Sighting(NamedTuple):
    """A delivery that a member observed, and its acknowledgement: request `request_id` at `requested_at`."""

    at: float
    share: Share
    offset: int
    value: str
    member: str
    deliveries: int
    request_id: int
    requested_at: float
    verdict: Verdict


class Stalls:
    """Periods in which some process or connection was stalled: messages in flight then may arrive later."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        self._spans = sorted(spans)

    def latest(self, at: float) -> float:
        """Returns the latest time at which a client may receive the effect of an earlier event."""
        latest = at + _ON_THE_WAY
        for begin, end in self._spans:
            if begin <= latest and end >= at:
                latest = max(latest, end + _ON_THE_WAY)
        return latest


def as_events(
    sightings: Sequence[Sighting], applied: Mapping[int, float], stalls: Stalls, lock: float
) -> Iterator[Event]:
    """Returns the deliveries and requests; `applied` has the response times of requests."""
    by_offset: defaultdict[tuple[Share, int], list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        by_offset[sighting.share, sighting.offset].append(sighting)
    for several in by_offset.values():
        for index, (one, begun) in enumerate(_in_order(several, applied, stalls)):
            yield from _events(one, _FIRST_TOKEN + index, begun + lock)


def unheeded(sightings: Sequence[Sighting], applied: Mapping[int, float]) -> set[int]:
    """Yields requests whose success proves nothing: another member had finished the record before.

    Acknowledgements below the start offset are ignored, and the response is success, as in Kafka.
    """
    finished: dict[tuple[Share, int], tuple[float, int]] = {}
    for one in sightings:
        if one.verdict.final and one.request_id in applied:
            place, response = (one.share, one.offset), (applied[one.request_id], one.request_id)
            finished[place] = min(response, finished.get(place, response))
    return {
        one.request_id
        for one in sightings
        if one.request_id in applied and (place := (one.share, one.offset)) in finished
        if (applied[one.request_id], one.request_id) > finished[place]
    }


def _in_order(
    sightings: Sequence[Sighting], applied: Mapping[int, float], stalls: Stalls
) -> Iterator[tuple[Sighting, float]]:
    """Yields each sighting with the latest time at which it can have been acquired."""
    final = [one for one in sightings if one.verdict.final and one.request_id in applied]
    if not final:
        yield from ((one, one.at) for one in _by_stored_count(sightings, applied.__contains__))
        return
    last = min(final, key=lambda one: applied[one.request_id])
    finished = applied[last.request_id]

    def confirmed(request_id: int) -> bool:
        return applied.get(request_id, inf) <= finished

    others = _by_stored_count([one for one in sightings if one is not last], confirmed)
    latest = stalls.latest(finished)
    late = [one for one in others if one.at > latest and one.deliveries >= last.deliveries]
    yield from ((one, min(one.at, finished)) for one in others if one not in late)
    yield last, min(last.at, finished)
    yield from ((one, one.at) for one in late)


def _by_stored_count(sightings: Sequence[Sighting], confirmed: Callable[[int], bool]) -> list[Sighting]:
    """Returns sightings in the order of arrival, except for buffered ones.

    `confirmed` returns whether the acknowledgement of a request id was confirmed.
    """
    ordered: list[Sighting] = []
    for one in sorted(sightings, key=lambda one: one.at):
        after = [
            place
            for place, other in enumerate(ordered)
            if other.deliveries > one.deliveries and confirmed(other.request_id)
        ]
        # A confirmed acknowledgement proves that its member held the record when it arrived.
        buffered = after and not confirmed(one.request_id)
        ordered.insert(after[0] if buffered else len(ordered), one)
    return ordered


def _events(one: Sighting, token: int, deadline: float) -> Iterator[Event]:
    yield Delivered(one.at, one.share, one.offset, one.value, one.member, token, one.deliveries, deadline)
    yield Requested(one.requested_at, one.request_id, one.share, one.offset, token, one.verdict)
