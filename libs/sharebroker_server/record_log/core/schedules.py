"""The scheduled records of a partition: share groups deliver them at a time of their own (decision 0097).

A record with a delivery time is appended like any other. Ranges of neighbours with the same time are stored
beside the batches in the same step. A share group that reads the records lets them wait until then.

A recalled record is archived by every share group, also by one that is created later. Its offset is stored,
too, until the log start passes it.

A range is kept after its time, since the age of its records counts from it, but only the newest
MAX_SCHEDULED of these. Times are in ms since the Unix epoch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from operator import attrgetter
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError

MAX_SCHEDULED: Final = 10_000
"""The number of ranges per partition whose time is to come; also of those in the past that are kept."""

MAX_RANGES: Final = 21_000
"""The number of ranges per partition above which the surplus is removed at once."""

CLOCK_TOLERANCE_MS: Final = 60_000
"""A time that has passed by no more than this is stored: the clock of the next leader may be behind."""

RECALL_MARGIN_MS: Final = 500
"""A record is not recalled this close to its time: each measurement of Redis' clock differs a little."""

RETRY_AFTER: Final = 1.0
"""Seconds after which an append may be sent again that had no room."""

_last: Final = attrgetter("last")
_due: Final = attrgetter("due_ms")


class Scheduled(NamedTuple):
    """Neighbouring records that share groups deliver at the same time."""

    first: int
    last: int
    due_ms: int


class DeliveryLimits(NamedTuple):
    """A topic's limits of delivery times in ms; `retention_ms` is -1 for none."""

    max_delay_ms: int
    retention_ms: int

    def check(self, due_ms: int, now_ms: int) -> None:
        """Raises INVALID_TIMESTAMP for a time that is too far away."""
        delay, (longest, retention_ms) = due_ms - now_ms, self
        if delay > longest:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"The delivery time is {delay} ms from now; delivery.delay.max.ms permits {longest} ms.",
                metadata={"delay_ms": str(delay), "delivery.delay.max.ms": str(longest)},
            )
        if 0 <= retention_ms < delay:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"The delivery time is {delay} ms from now; the record would be deleted after {retention_ms} "
                "ms (retention.ms).",
                metadata={"delay_ms": str(delay), "retention.ms": str(retention_ms)},
            )


def ranges_of(times: Sequence[int], base_offset: int, now_ms: int) -> list[Scheduled]:
    """Returns the ranges of an append whose records have these delivery times, 0 for none.

    Raises:
        KafkaError: RECORD_LIST_TOO_LARGE for more ranges than a partition may have.
    """
    ranges: list[Scheduled] = []
    earliest = now_ms - CLOCK_TOLERANCE_MS
    for offset, due_ms in enumerate(times, base_offset):
        if due_ms <= earliest:
            continue
        if ranges and ranges[-1].last == offset - 1 and ranges[-1].due_ms == due_ms:
            ranges[-1] = ranges[-1]._replace(last=offset)
        else:
            ranges.append(Scheduled(offset, offset, due_ms))
    if len(ranges) > MAX_SCHEDULED:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The append has {len(ranges)} ranges of records with different delivery times; {MAX_SCHEDULED} "
            "are allowed. Send fewer records at once.",
        )
    return ranges


def check_not_due(offset: int, due_ms: int, now_ms: float) -> None:
    """Raises INVALID_RECORD_STATE if the delivery time of a record has passed, or is about to."""
    if due_ms <= now_ms + RECALL_MARGIN_MS:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            f"The delivery time {due_ms} of the record at offset {offset} has passed, or does so within "
            f"{RECALL_MARGIN_MS} ms; share groups may have received it.",
        )


class Schedules:
    """The durable schedules of one partition. `ranges` and the `recalled` offsets ascend."""

    __slots__ = ("_to_come", "ranges", "recalled")

    def __init__(self, ranges: Iterable[Scheduled] = (), recalled: Iterable[int] = ()) -> None:
        self.ranges = sorted(ranges)
        self.recalled = sorted(recalled)
        # A heap of the times that were to come when it was used last.
        self._to_come = [each.due_ms for each in self.ranges]
        heapify(self._to_come)

    def add(self, ranges: Iterable[Scheduled]) -> None:
        """Adds ranges that are durable now; they follow all others."""
        for each in ranges:
            self.ranges.append(each)
            heappush(self._to_come, each.due_ms)

    def number_to_come(self, now_ms: int) -> int:
        """Returns the number of ranges whose time is to come."""
        while self._to_come and self._to_come[0] <= now_ms:
            heappop(self._to_come)
        return len(self._to_come)

    def check_room(self, number: int, now_ms: int) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED if there is no room for a number of further ranges."""
        present = self.number_to_come(now_ms)
        if present + number > MAX_SCHEDULED:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The partition has {present} scheduled records; {MAX_SCHEDULED} are allowed. "
                "Neighbours of one append with the same delivery time count as one.",
                retry_after=RETRY_AFTER,
            )

    def between(self, first: int, end: int, most: int | None = None) -> Iterator[Scheduled]:
        """Yields the ranges with an offset in [first, end), `most` of them."""
        for index in range(self._below(first), len(self.ranges))[:most]:
            if self.ranges[index].first >= end:
                break
            yield self.ranges[index]

    def to_come(self, first: int, now_ms: float) -> list[tuple[int, int]]:
        """Returns the ranges of offsets from `first` on whose time is to come, ascending, last inclusive."""
        later = self.ranges[self._below(first) :]
        return [(max(start, first), last) for start, last, due_ms in later if due_ms > now_ms]

    def latest_in(self, first: int, last: int) -> int:
        """Returns the latest delivery time of the records from `first` to `last`; 0 without one."""
        return max(map(_due, self.between(first, last + 1)), default=0)

    def due_of(self, offset: int) -> int:
        """Returns the delivery time of a record; 0 without one, or if it was removed."""
        return self.latest_in(offset, offset)

    def recall(self, offsets: Iterable[int]) -> None:
        """Adds recalled offsets that are durable now."""
        for offset in offsets:
            if not self.is_recalled(offset):
                insort(self.recalled, offset)

    def is_recalled(self, offset: int) -> bool:
        """Returns whether a record was recalled."""
        return next(self.recalled_in(offset, offset + 1), None) is not None

    def recalled_in(self, first: int, end: int) -> Iterator[int]:
        """Yields the recalled offsets in [first, end)."""
        for index in range(bisect_left(self.recalled, first), len(self.recalled)):
            if self.recalled[index] >= end:
                break
            yield self.recalled[index]

    def ended_before(self, offset: int) -> Sequence[Scheduled]:
        """Returns the ranges below the offset: their records were deleted."""
        return self.ranges[: self._below(offset)]

    def surplus(self, now_ms: int) -> Sequence[Scheduled]:
        """Returns the ranges with the oldest times, as far as more than MAX_SCHEDULED have passed."""
        excess = len(self.ranges) - self.number_to_come(now_ms) - MAX_SCHEDULED
        return nsmallest(excess, self.ranges, key=_due) if excess > 0 else ()

    def drop_before(self, offset: int) -> None:
        """Removes what is below the offset: its records were deleted."""
        self.remove(self.ended_before(offset))
        del self.recalled[: bisect_left(self.recalled, offset)]

    def remove(self, ranges: Iterable[Scheduled]) -> None:
        """Removes ranges that `ended_before` or `surplus` returned."""
        if removed := set(ranges):
            self.ranges = [each for each in self.ranges if each not in removed]

    def _below(self, offset: int) -> int:
        return bisect_left(self.ranges, offset, key=_last)
