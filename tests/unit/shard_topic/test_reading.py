"""A shard's log as a partition of __share_group_state, on a memory log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.stream_log.port import Entry
from tests.support.kafka_state import Record, read_batches
from tests.testkit.waiting import eventually
from tests.unit.share_coordinator.harness import TOPIC
from tests.unit.share_coordinator.service.process import GROUP, Process

SHARD = "share-coordinator:0"
PLENTY = 1 << 20


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    process = Process("share.coordinator.state.topic.num.partitions=1")
    await process.start()
    yield process
    await process.holder.stop()


async def fetch(
    process: Process, offset: int, max_bytes: int = PLENTY, wait_ms: int = 0, shard: int = 0
) -> pb.FetchShareGroupStateResponse:
    request = pb.FetchShareGroupStateRequest(
        shard=shard, fetch_offset=offset, max_bytes=max_bytes, max_wait_ms=wait_ms
    )
    response: pb.FetchShareGroupStateResponse = await process.stub.FetchShareGroupState(request)
    return response


async def records(process: Process, offset: int, max_bytes: int = PLENTY) -> list[Record]:
    return list(read_batches((await fetch(process, offset, max_bytes)).record_batches))


async def find(process: Process, timestamp: int, shard: int = 0) -> tuple[int, int]:
    request = pb.FindShareGroupStateOffsetRequest(shard=shard, timestamp=timestamp)
    found = await process.stub.FindShareGroupStateOffset(request)
    return found.offset, found.timestamp


async def refused(process: Process, offset: int, shard: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await fetch(process, offset, shard=shard)
    return error.value.code


async def test_checkpoints_deltas_and_tombstones_by_offset(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    request = pb.DeleteShareGroupStateRequest
    topics = [request.TopicData(topic_id=TOPIC, partitions=[0])]
    await process.stub.DeleteShareGroupState(request(group_id=GROUP, topics=topics))
    read = await records(process, 0)
    assert [(r.offset, r.kind, r.key, r.value is None) for r in read] == [
        (0, "ShareSnapshot", (GROUP, TOPIC, 0), False),
        (1, "ShareUpdate", (GROUP, TOPIC, 0), False),
        (2, "ShareSnapshot", (GROUP, TOPIC, 0), True),
        (3, "ShareUpdate", (GROUP, TOPIC, 0), True),
    ]
    assert read[1].value is not None
    assert read[1].value["StateBatches"] == [(5, 9, 2, 1)]
    response = await fetch(process, 2)
    assert (response.log_start_offset, response.high_watermark) == (0, 4)
    assert [r.offset for r in read_batches(response.record_batches)] == [2, 3]


async def test_fetch_at_the_end_is_empty(process: Process) -> None:
    response = await fetch(process, 0)
    assert (response.record_batches, response.log_start_offset, response.high_watermark) == (b"", 0, 0)


async def test_fetch_waits_for_records(process: Process) -> None:
    waiting = asyncio.create_task(fetch(process, 0, wait_ms=30_000))
    await asyncio.sleep(0)
    await process.initialize(0)
    response = await waiting
    assert (len(list(read_batches(response.record_batches))), response.high_watermark) == (1, 1)
    assert (await fetch(process, 1, wait_ms=1)).record_batches == b""


@pytest.mark.parametrize("offset", [-1, 3])
async def test_offset_outside_the_log_is_rejected(process: Process, offset: int) -> None:
    await process.initialize(0, 1)
    assert await refused(process, offset) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("shard", [-1, 1])
async def test_unknown_shard_is_rejected(process: Process, shard: int) -> None:
    assert await refused(process, 0, shard) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError):
        await find(process, -1, shard)


async def test_bytes_are_limited_to_at_least_one_record(process: Process) -> None:
    process.topics[TOPIC] = 1000
    await process.initialize(*range(1000))
    one = await records(process, 0, 0)
    assert [r.offset for r in one] == [0]
    size = len((await fetch(process, 0, 0)).record_batches)
    some = await records(process, 300, 10 * size)
    assert [r.offset for r in some] == list(range(300, 300 + len(some)))
    assert 10 <= len(some) <= 20
    assert [r.offset for r in await records(process, 0)] == list(range(1000))
    assert [r.offset for r in await records(process, 999)] == [999]


async def test_trimming_moves_the_start(process: Process) -> None:
    await process.initialize(0, 1, 2, 3)
    await process.log.trim(SHARD, 1, 3)
    assert await refused(process, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    response = await fetch(process, 2)
    assert (response.log_start_offset, response.high_watermark) == (2, 4)
    assert (await find(process, -2), await find(process, -1)) == ((2, -1), (4, -1))
    await process.log.trim(SHARD, 1, 5)
    response = await fetch(process, 4)
    assert (response.record_batches, response.log_start_offset, response.high_watermark) == (b"", 4, 4)


async def test_log_may_be_trimmed_during_a_read(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets stay true to their records: a batch has a hole."""
    await process.initialize(0, 1, 2, 3)
    read = process.log.read
    gone = {2}

    async def trimmed_meanwhile(shard: str, after: int, limit: int) -> list[Entry]:
        return [entry for entry in await read(shard, after, limit) if entry.position not in gone]

    monkeypatch.setattr(process.log, "read", trimmed_meanwhile)
    assert [(r.offset, r.key[2]) for r in await records(process, 1)] == [(2, 2), (3, 3)]
    assert [(r.offset, r.key[2]) for r in await records(process, 0)] == [(0, 0), (2, 2), (3, 3)]


async def test_pending_records_are_not_readable(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    await process.initialize(0)
    read = process.log.read

    async def appended_meanwhile(shard: str, after: int, limit: int) -> list[Entry]:
        page = await read(shard, after, limit)
        return [*page, Entry(2, page[0].payload)] if page else []

    monkeypatch.setattr(process.log, "read", appended_meanwhile)
    assert [r.offset for r in await records(process, 0)] == [0]


async def test_offsets_are_found_by_timestamp(process: Process) -> None:
    assert await find(process, -3) == await find(process, 0) == (-1, -1)
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    times = [r.timestamp for r in await records(process, 0)]
    assert await find(process, 0) == (0, times[0])
    assert await find(process, times[1] + 1) == (-1, -1)
    assert await find(process, -3) == (times.index(max(times)), max(times))
    assert await find(process, times[1]) == (times.index(times[1]), times[1])
    with pytest.raises(KafkaError) as error:
        await find(process, -4)
    assert error.value.code is ErrorCode.INVALID_REQUEST


async def test_shard_of_another_broker_is_rejected(process: Process) -> None:
    waiting = asyncio.create_task(fetch(process, 0, wait_ms=30_000))
    await asyncio.sleep(0)
    await process.host.stop()
    with pytest.raises(KafkaError) as error:
        await waiting
    assert error.value.code is ErrorCode.NOT_COORDINATOR


async def test_unavailable_log_is_retriable(process: Process) -> None:
    await process.initialize(0)
    process.log.away = True
    assert await refused(process, 0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    process.log.away = False
    await eventually(lambda: process.host.shard(0).end() == 1)
