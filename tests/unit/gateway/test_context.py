"""Streams, background work and counts of fetches of a gateway."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.context import FetchCounts
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.share.requests import fetch, records_of, refused


async def test_unknown_topic_is_an_error_that_names_it(harness: Harness) -> None:
    assert harness.gateway.topic(TOPIC.name) == TOPIC
    with pytest.raises(KafkaError) as failure:
        harness.gateway.topic("absent", "field")
    assert failure.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert failure.value.metadata == {"topic": "absent", "field": "field"}


async def test_stop_fails_the_streams_and_waits_for_their_end(harness: Harness) -> None:
    failures: list[BaseException] = []
    ended = asyncio.Event()

    async def stream() -> None:
        with harness.gateway.serving(failures.append):
            await ended.wait()

    serving = asyncio.ensure_future(stream())
    await eventually(lambda: harness.gateway.streams == 1)
    stopping = asyncio.ensure_future(harness.gateway.stop())
    await eventually(lambda: failures)
    assert not stopping.done()
    ended.set()
    await stopping
    await serving
    assert harness.gateway.streams == 0
    (failure,) = failures
    assert isinstance(failure, KafkaError)
    assert failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_stop_waits_for_background_work_that_fails(harness: Harness) -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("work")
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    harness.gateway.background(work(), "work failed")
    await harness.gateway.stop()
    assert done == ["work"]


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
    counts.completed(False, 0.0, 0.0)  # a fetch without a wait
    counts.completed(False, 0.1, 0.5)  # an error ended it
    counts.completed(True, 0.6, 0.5)
    assert (counts.expired, sum(counts.seconds.buckets)) == (0, 1)
    counts.completed(False, 0.5, 0.5)
    assert (counts.expired, sum(counts.seconds.buckets)) == (1, 1)
