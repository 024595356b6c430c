"""Fetch and ReadRange: record batches from the partitions' leaders, without aborted transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.log_fetch import (
    MAX_READ_RANGE_BYTES,
    READ_RANGE_BYTES,
    LogFetchLimits,
    Part,
    Result,
    committed_batches,
    fetch_log,
    headers_of,
    read_range,
)
from sharebroker_server.record_log.core.batch import assign, parse_headers
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.transactions import marker_batch
from sharebroker_server.rpc.errors import wire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, refusing
from tests.unit.record_log.batches import LIMIT, batch


def parts(*offsets: int) -> list[Part]:
    """Partition 0, 1, … from these offsets."""
    return [
        Part(topic_id=TOPIC.topic_id, partition=number, fetch_offset=offset, partition_max_bytes=1000)
        for number, offset in enumerate(offsets)
    ]


def having(records: bytes, high_watermark: int = 9) -> Any:
    def answer(request: leader.FetchRequest) -> leader.FetchResponse:
        return leader.FetchResponse(
            partitions=[
                Result(
                    topic_id=part.topic_id,
                    partition=part.partition,
                    records=records,
                    high_watermark=high_watermark,
                )
                for part in request.partitions
            ]
        )

    return answer


def waiting(released: asyncio.Event, then: bytes) -> Any:
    """Returns no records at once; a waiting fetch gets them when `released` is set."""

    def answer(request: leader.FetchRequest) -> leader.FetchResponse | Awaitable[leader.FetchResponse]:
        async def later() -> leader.FetchResponse:
            await released.wait()
            return having(then)(request)  # type: ignore[no-any-return]

        return later() if request.max_wait_ms else having(b"")(request)

    return answer


async def test_single_leader_does_the_long_poll(harness: Harness) -> None:
    harness.leader.answer = having(b"batch")
    limits = LogFetchLimits(max_wait=5.0, min_bytes=7, max_bytes=100, committed=True)
    first, second = await fetch_log(harness.gateway, parts(3, 4), limits)
    assert (first.records, second.partition, second.high_watermark) == (b"batch", 1, 9)
    (request,) = harness.leader.of(leader.FetchRequest)
    assert 4000 < request.max_wait_ms <= 5000
    assert (request.min_bytes, request.max_bytes, request.isolation_level) == (7, 100, 1)
    assert [part.fetch_offset for part in request.partitions] == [3, 4]


async def test_several_leaders_are_called_without_a_wait_first(harness: Harness) -> None:
    other = harness.local_leader(2, partition=1)
    harness.leader.answer, other.answer = having(b""), having(b"batch")
    responses = await fetch_log(harness.gateway, parts(0, 0), LogFetchLimits(max_wait=60.0))
    assert [response.records for response in responses] == [b"", b"batch"]
    assert [len(one.of(leader.FetchRequest)) for one in (harness.leader, other)] == [1, 1]


async def test_first_of_several_leaders_ends_the_wait(harness: Harness) -> None:
    other = harness.local_leader(2, partition=1)
    never, soon = asyncio.Event(), asyncio.Event()
    harness.leader.answer, other.answer = waiting(never, b"x"), waiting(soon, b"batch")
    fetching = asyncio.create_task(fetch_log(harness.gateway, parts(0, 0), LogFetchLimits(max_wait=60.0)))
    await eventually(lambda: len(other.of(leader.FetchRequest)) == 2)
    soon.set()
    first, second = await fetching
    assert (first.records, first.high_watermark, second.records) == (b"", 9, b"batch")


async def test_several_leaders_are_called_once_without_a_wait(harness: Harness) -> None:
    other = harness.local_leader(2, partition=1)
    harness.leader.answer = other.answer = having(b"")
    await fetch_log(harness.gateway, parts(0, 0), LogFetchLimits())
    assert [len(one.of(leader.FetchRequest)) for one in (harness.leader, other)] == [1, 1]


async def test_fetch_is_retried_at_the_new_leader(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        harness.leader.answer = having(b"batch")

    harness.ownership.on_forget = settle
    (response,) = await fetch_log(harness.gateway, parts(0), LogFetchLimits())
    assert (response.error_code, response.records) == (0, b"batch")


async def test_missing_leader_is_reported_at_the_end_of_the_wait(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharebroker_server.gateway.log_fetch.MOVED_PATIENCE", 0.02)
    harness.ownership.no_owner = True
    (response,) = await fetch_log(harness.gateway, parts(0), LogFetchLimits())
    assert ErrorCode(response.error_code) is ErrorCode.LEADER_NOT_AVAILABLE


async def test_other_errors_are_returned_at_once(harness: Harness) -> None:
    def answer(request: leader.FetchRequest) -> leader.FetchResponse:
        response: leader.FetchResponse = having(b"")(request)
        response.partitions[0].error_code = wire(ErrorCode.OFFSET_OUT_OF_RANGE)
        return response

    harness.leader.answer = answer
    other = harness.local_leader(2, partition=1)
    other.answer = waiting(asyncio.Event(), b"")
    first, second = await fetch_log(harness.gateway, parts(99, 0), LogFetchLimits(max_wait=60.0))
    assert ErrorCode(first.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not second.error_code


def spans(records: bytes) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header, _ in headers_of(records)]


def log(*parts: tuple[int, int | bool]) -> bytes:
    """Batches of two records by a transaction of a producer (-1: by none), or its marker (True: commit)."""
    offset, found = 0, b""
    for producer, what in parts:
        if isinstance(what, bool):
            stored = marker_batch(Marker(producer, 0, 0, what), offset, 1, 1000)
        else:
            data = batch(2, producer=(producer, 0, what) if producer >= 0 else (-1, -1, -1),
                         transactional=producer >= 0)  # fmt: skip
            stored = assign(data, parse_headers(data, LIMIT), offset, 1)[0]
        found, offset = found + stored.data, stored.last_offset + 1
    return found


def test_headers_are_read_in_order() -> None:
    assert spans(log((-1, 0), (1, 0), (1, False))) == [(0, 1), (2, 3), (4, 4)]
    assert spans(b"") == []


def test_markers_and_aborted_batches_are_removed() -> None:
    records = log((1, 0), (2, 0), (-1, 0), (1, False), (2, True), (1, 2), (1, True))
    assert spans(committed_batches(records, [(1, 0)])) == [(2, 3), (4, 5), (8, 9)]
    assert spans(committed_batches(records, [])) == [(0, 1), (2, 3), (4, 5), (8, 9)]


def test_two_aborted_transactions_of_one_producer() -> None:
    records = log((1, 0), (1, False), (1, 2), (1, True), (1, 4), (1, False))
    assert spans(committed_batches(records, [(1, 6), (1, 0)])) == [(3, 4)]


def test_aborted_transaction_that_began_before_the_fetched_batches() -> None:
    records = log((-1, 0), (1, 0), (1, 2), (1, False))
    behind = records[len(log((-1, 0), (1, 0))) :]
    assert spans(committed_batches(behind, [(1, 2)])) == []


def request(first: int = 0, last: int = 9, **fields: Any) -> pb.ReadRangeRequest:
    span = pb.PlanRange(topic=TOPIC.name, partition=1, first_offset=first, last_offset=last)
    return pb.ReadRangeRequest(range=span, **fields)


async def test_range_is_read_from_its_first_offset(harness: Harness) -> None:
    records = batch(4)

    def answer(sent: leader.FetchRequest) -> leader.FetchResponse:
        (part,) = sent.partitions
        assert (part.fetch_offset, part.partition_max_bytes) == (0, READ_RANGE_BYTES)
        return leader.FetchResponse(
            partitions=[leader.FetchResponse.Partition(topic_id=part.topic_id, partition=1, records=records)]
        )

    harness.leader.answer = answer
    response = await read_range(harness.gateway, request())
    assert (response.record_batches, response.next_offset) == (records, 4)


async def test_error_of_the_partition_is_raised(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(KafkaError) as failure:
        await read_range(harness.gateway, request())
    assert failure.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "invalid", [request(-1, 3), request(4, 3), request(max_bytes=MAX_READ_RANGE_BYTES + 1)]
)
async def test_invalid_ranges_are_rejected(harness: Harness, invalid: pb.ReadRangeRequest) -> None:
    with pytest.raises(KafkaError) as failure:
        await read_range(harness.gateway, invalid)
    assert failure.value.code is ErrorCode.INVALID_REQUEST
    assert harness.leader.requests == []
