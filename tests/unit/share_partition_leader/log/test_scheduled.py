"""Scheduled records of a share-partition, counted by the leader: loaded or not, recalled, aborted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.offset_spans import joined
from sharebroker_server.record_log.core.schedules import Scheduled
from sharebroker_server.record_log.core.transactions import DUPLICATES, AbortedTransaction, Transactions
from sharebroker_server.record_log.log_reader import Span
from sharebroker_server.share_partition_leader.core.events import Acquire, AcquireRequest
from sharebroker_server.share_partition_leader.log.scheduled import common, scheduled_count, size
from tests.unit.share_partition_leader.core.support import OPTIMIZED, opened

NOW_MS = 1000
PAST, SOON = 900, 1001
RANGES = (Scheduled(0, 9, SOON), Scheduled(10, 14, PAST), Scheduled(20, 29, SOON + 1))


def transactions() -> Transactions:
    found = Transactions()
    found.schedules.add(RANGES)
    return found


@pytest.mark.parametrize(
    ("start", "expected"), [(0, 20), (4, 16), (9, 11), (10, 10), (25, 5), (30, 0), (-1, 20)]
)
def test_records_to_come_count_from_the_start_offset(start: int, expected: int) -> None:
    assert scheduled_count(transactions(), start, NOW_MS, None) == expected


@pytest.mark.parametrize(("now_ms", "expected"), [(899, 25), (900, 20), (1001, 10), (1002, 0)])
def test_records_count_until_their_time(now_ms: int, expected: int) -> None:
    assert scheduled_count(transactions(), 0, now_ms, None) == expected


def test_records_that_the_next_read_archives_do_not_count() -> None:
    found = transactions()
    found.schedules.recall([1, 12, 22])
    found.aborted.append(AbortedTransaction(7, 5, 11, 12))
    found.duplicates.append(AbortedTransaction(DUPLICATES, 22, 23, 0))
    assert scheduled_count(found, 0, NOW_MS, None) == 20 - 1 - 5 - 2


def test_waiting_and_unread_records_of_a_window_are_counted() -> None:
    found = transactions()
    found.schedules.recall([1])
    share = opened()
    read = Acquire(AcquireRequest("m1", 500, 500, OPTIMIZED), 0, [(0, 14)], [(2, 3)], (), RANGES[:1])
    share.handle(read, 0.0)
    assert share.in_flight.waiting == 8
    assert scheduled_count(found, 0, NOW_MS, share.in_flight) == 8 + 10
    assert scheduled_count(found, 5, NOW_MS, share.in_flight) == 5 + 10
    assert scheduled_count(found, 40, NOW_MS, share.in_flight) == 0


SPANS = st.sets(st.integers(0, 30)).map(lambda offsets: joined([(each, each) for each in sorted(offsets)]))


@given(SPANS, SPANS)
def test_number_of_common_offsets(left: list[Span], right: list[Span]) -> None:
    one, other = (
        {offset for first, last in spans for offset in range(first, last + 1)} for spans in (left, right)
    )
    assert common(left, right) == len(one & other)
    assert size(left) == len(one)
