"""Counters of share fetches."""

from __future__ import annotations

from sharebroker_server.gateway.fetch_metrics import FetchCounts
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.share.requests import fetch, records_of, refused


async def test_fetches_are_counted_by_outcome(harness: Harness) -> None:
    counts = harness.gateway.fetches
    harness.leader.answer = records_of(0)
    await harness.share.ShareFetch(fetch(0, 0))
    assert (sum(counts.seconds.buckets), counts.expired) == (1, 0)
    await refused(harness.share.ShareFetch(fetch(9)))
    await harness.share.ShareFetch(fetch(1, max_records=0))
    assert (sum(counts.seconds.buckets), counts.expired, counts.in_flight) == (1, 0, 0)


def test_fetch_without_records_at_the_end_of_its_wait_is_expired() -> None:
    counts = FetchCounts()
    counts.completed(False, 0.0, 0.0)  # it did not want to wait
    counts.completed(False, 0.1, 0.5)  # an error ended it
    counts.completed(True, 0.6, 0.5)
    assert (counts.expired, sum(counts.seconds.buckets)) == (0, 1)
    counts.completed(False, 0.5, 0.5)
    assert (counts.expired, sum(counts.seconds.buckets)) == (1, 1)
