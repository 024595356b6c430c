"""Counts the scheduled records of a share-partition whose time is to come, for the lag (decision 0098)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_server.offset_spans import Span, intersection, joined
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.share_partition_leader.core.in_flight import InFlight


def scheduled_count(transactions: Transactions, start: int, now_ms: float, in_flight: InFlight | None) -> int:
    """Returns how many records from `start` on wait for a delivery time after `now_ms`.

    Of those that a loaded share-partition has read, the waiting ones count. Of the others, those do not count
    that a group may skip: recalled records, duplicates, and offsets between those of aborted transactions.
    """
    to_come = transactions.schedules.to_come(start, now_ms)
    if not to_come:
        return 0
    read_to = start if in_flight is None else max(start, in_flight.after_end)
    end = to_come[-1][1] + 1
    read = [(first, min(last, read_to - 1)) for first, last in to_come if first < read_to]
    unread = [(max(first, read_to), last) for first, last in to_come if last >= read_to]
    skipped = [(each.first_offset, each.last_offset) for each in transactions.aborted_in(read_to, end)]
    skipped += transactions.skipped_in(read_to, end)
    waiting = in_flight.waiting_ranges() if in_flight is not None and read else ()
    return common(read, waiting) + size(unread) - common(unread, joined(sorted(skipped)))


def size(spans: Iterable[Span]) -> int:
    """Returns the number of offsets in disjoint spans."""
    return sum(last - first + 1 for first, last in spans)


def common(left: Sequence[Span], right: Sequence[Span]) -> int:
    """Returns the number of offsets in both sequences of ascending, disjoint spans."""
    return size(intersection(left, right))
