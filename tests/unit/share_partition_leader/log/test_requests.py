"""Produce, ListOffsets and DeleteRecords: each partition has its own result."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.schedules import DeliveryLimits
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch, scheduled
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, TOPIC, Harness, code
from tests.unit.upstream_log.harness import running as running_cluster


async def _produce(harness: Harness, *parts: tuple[int, bytes]) -> list[pb.ProduceResponse.Partition]:
    request = pb.ProduceRequest()
    for partition, data in parts:
        request.partitions.add(topic_id=TOPIC, partition=partition, record_batches=data)
    return list((await harness.stub.Produce(request)).partitions)


async def _offset(harness: Harness, timestamp: int, isolation: int = 0) -> pb.ListOffsetsResponse.Partition:
    request = pb.ListOffsetsRequest(isolation_level=isolation)
    request.partitions.add(topic_id=TOPIC, partition=0, timestamp=timestamp)
    response: pb.ListOffsetsResponse = await harness.stub.ListOffsets(request)
    return response.partitions[0]


async def _delete(harness: Harness, offset: int) -> pb.DeleteRecordsResponse.Partition:
    request = pb.DeleteRecordsRequest()
    request.partitions.add(topic_id=TOPIC, partition=0, offset=offset)
    response: pb.DeleteRecordsResponse = await harness.stub.DeleteRecords(request)
    return response.partitions[0]


async def test_locks_of_a_loaded_share_partition_are_counted(harness: Harness) -> None:
    async def locked(group: str | None) -> int:
        request = pb.ListOffsetsRequest()
        request.partitions.add(topic_id=TOPIC, partition=0, timestamp=-1, locked_by_group=group)
        (found,) = (await harness.stub.ListOffsets(request)).partitions
        assert found.offset == 5
        return int(found.locked)

    await harness.publish(5)
    assert await locked(GROUP) == 0
    assert await harness.acquire(3)
    assert [await locked(group) for group in (GROUP, "other", None)] == [5, 0, 0]
    await harness.acknowledge((0, 1, ACCEPT))
    assert await locked(GROUP) == 3


async def test_scheduled_records_are_counted_loaded_or_not(harness: Harness) -> None:
    async def found(offset: int | None, group: str | None = GROUP) -> int:
        request = pb.ListOffsetsRequest()
        request.partitions.add(
            topic_id=TOPIC,
            partition=0,
            timestamp=-1,
            locked_by_group=group,
            scheduled_from_offset=offset,
        )
        (row,) = (await harness.stub.ListOffsets(request)).partitions
        assert not row.error_code
        return int(row.scheduled)

    await harness.publish(2)
    assert await found(0) == 0
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    log.settings = LogSettings(delivery=DeliveryLimits(86_400_000, -1))
    due = log.now_ms + 60_000
    await log.append(scheduled([due, due, None, due + 1], time=-1))
    assert [await found(offset) for offset in (None, 0, 3, 6)] == [0, 3, 2, 0]
    assert await harness.acquire(3)
    assert [await found(0, group) for group in (GROUP, None)] == [3, 3]
    await log.append(scheduled([due], time=-1))
    await log.recall(5, harness.leadership.stored_now_ms)
    assert [await found(0, group) for group in (GROUP, None)] == [4, 3]


async def test_records_get_the_next_offsets(harness: Harness) -> None:
    await _produce(harness, (0, batch(3)))
    (response,) = await _produce(harness, (0, batch(2) + batch(4)))
    assert (response.base_offset, response.last_offset, response.log_start_offset) == (3, 8, 0)
    assert (response.log_append_time_ms, code(response)) == (-1, ErrorCode.NONE)


async def test_each_partition_has_its_own_result(harness: Harness) -> None:
    fine, bad, corrupt = await _produce(harness, (0, batch(3)), (5, batch(3)), (0, b"no batch"))
    assert (code(fine), fine.last_offset) == (ErrorCode.NONE, 2)
    assert (code(bad), bad.partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 5)
    assert code(corrupt) is ErrorCode.CORRUPT_MESSAGE
    assert corrupt.error_message


@pytest.mark.parametrize(
    ("timestamp", "offset", "time"),
    [
        (-1, 6, -1),
        (-2, 2, -1),
        (-3, 5, 1002),
        (1000, 3, 1000),
        (1001, 4, 1001),
        (1002, 5, 1002),
        (1003, -1, -1),
    ],
)
async def test_offsets_are_found_by_timestamp(
    harness: Harness, timestamp: int, offset: int, time: int
) -> None:
    await harness.publish_bytes(batch(3, time=0))
    await harness.publish_bytes(batch(3, time=1000))
    await _delete(harness, 2)
    response = await _offset(harness, timestamp)
    assert (code(response), response.offset, response.timestamp) == (ErrorCode.NONE, offset, time)
    assert response.leader_epoch > 0


async def test_an_invalid_timestamp_is_rejected(harness: Harness) -> None:
    assert code(await _offset(harness, -4)) is ErrorCode.INVALID_REQUEST


async def _mark(harness: Harness, commit: bool, *, epoch: int = 0, coordinator: int = 1) -> ErrorCode:
    request = pb.WriteTxnMarkersRequest()
    request.markers.add(
        topic_id=TOPIC,
        producer_id=7,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        transaction_result=commit,
    )
    (response,) = (await harness.stub.WriteTxnMarkers(request)).partitions
    return code(response)


async def _begin(harness: Harness, count: int = 2) -> None:
    """A transaction of producer 7 with one batch."""
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    sequence = log.transactions.producers[7].batches[-1].last_sequence + 1 if log.log_end_offset else 0
    data = batch(count, time=5000, producer=(7, 0, sequence), transactional=True)
    await log.append(data, Verified(log.log_end_offset, renews_epoch=False))


async def test_read_committed_offsets_end_at_the_last_stable_offset(
    harness: Harness,
) -> None:
    await _begin(harness)
    for timestamp in (-1, 5000, -3):
        found = await _offset(harness, timestamp, isolation=1)
        assert found.offset == (0 if timestamp == -1 else -1)
    assert await _mark(harness, commit=True) is ErrorCode.NONE
    assert [(await _offset(harness, timestamp, isolation=1)).offset for timestamp in (-1, 5000, -3)] == [
        3,
        0,
        1,
    ]


async def test_producers_are_described(harness: Harness) -> None:
    await _begin(harness)
    request = pb.DescribeProducersRequest(partitions=[delivery.TopicPartition(topic_id=TOPIC)])
    (described,) = (await harness.stub.DescribeProducers(request)).partitions
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 0, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, 0)
    await _mark(harness, commit=False, epoch=1, coordinator=4)
    (described,) = (await harness.stub.DescribeProducers(request)).partitions
    (producer,) = described.active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (1, -1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (4, -1)


async def test_markers_are_fenced(harness: Harness) -> None:
    assert await _mark(harness, commit=True, epoch=2, coordinator=5) is ErrorCode.NONE
    assert await _mark(harness, commit=True, epoch=1, coordinator=5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        await _mark(harness, commit=True, epoch=2, coordinator=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )


async def test_deleted_records_are_not_delivered(harness: Harness) -> None:
    await harness.publish(3)
    await harness.publish(3)
    assert (await _delete(harness, 4)).low_watermark == 4
    assert code(await _delete(harness, 7)) is ErrorCode.OFFSET_OUT_OF_RANGE
    (response,) = await harness.acquire()
    assert [(run.first_offset, run.last_offset) for run in response.acquired] == [(4, 5)]
    assert (await _delete(harness, -1)).low_watermark == 6


async def test_deleting_held_records_wakes_waiting_members(harness: Harness) -> None:
    await harness.configure("share.partition.max.record.locks", "100")
    await harness.publish(100)
    await harness.acquire()
    await harness.publish(5)
    waiting = asyncio.create_task(harness.acquire(member="m2", max_wait_ms=20_000))
    share_partition = await harness.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    before = asyncio.get_running_loop().time()
    await _delete(harness, 50)
    (response,) = await waiting
    assert asyncio.get_running_loop().time() == before
    assert [run.first_offset for run in response.acquired] == [100]
    assert not (await harness.acknowledge((100, 104, ACCEPT), member="m2")).error_code


Answer = pb.InspectRecordsResponse.Partition
Span = tuple[int, int]


async def _inspect(harness: Harness, offset: int = 0, partition: int = 0) -> Answer:
    request = pb.InspectRecordsRequest(group_id=GROUP)
    request.partitions.add(topic_id=TOPIC, partition=partition, from_offset=offset)
    (response,) = (await harness.stub.InspectRecords(request)).partitions
    found: Answer = response
    return found


def _spans(response: Answer) -> tuple[list[Span], list[Span], list[Span]]:
    """Held, markers, missing."""
    held, markers, missing = (
        [(each.first_offset, each.last_offset) for each in ranges]
        for ranges in (response.in_delivery, response.markers, response.missing)
    )
    return held, markers, missing


async def test_held_records_are_reported_and_accepted_ones_are_not(harness: Harness) -> None:
    await harness.publish(5)
    assert _spans(await _inspect(harness)) == ([], [], [])
    await harness.acquire()
    await harness.acknowledge((1, 2, ACCEPT))
    response = await _inspect(harness)
    assert _spans(response) == ([(0, 0), (3, 4)], [], [])
    assert (response.log_start_offset, response.log_end_offset, response.next_offset) == (0, 5, 5)


async def test_markers_have_no_records(harness: Harness) -> None:
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    await log.append(batch(2, producer=(7, 0, 0), transactional=True), Verified(0, renews_epoch=False))
    await log.end_transaction(Marker(7, 0, 1, True))
    assert _spans(await _inspect(harness)) == ([], [(2, 2)], [])


async def test_lost_batches_are_reported_as_missing(harness: Harness) -> None:
    for _ in range(4):
        await harness.publish(2)
    await harness.evict_hot_cache()
    (stored,) = harness.records._partitions.values()
    del stored.batches[1], stored.batches[-1]
    response = await _inspect(harness)
    assert (response.next_offset, _spans(response)) == (6, ([], [], [(2, 3)]))
    response = await _inspect(harness, response.next_offset)
    assert (response.next_offset, _spans(response)) == (8, ([], [], [(6, 7)]))


async def test_empty_range_reads_nothing(harness: Harness) -> None:
    await harness.publish(2)
    for offset in (-1, 2, 9):
        response = await _inspect(harness, offset)
        assert (response.next_offset, _spans(response)) == (2, ([], [], []))
    assert code(await _inspect(harness, partition=5)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("offset", "made_at"), [(0, 1000), (2, 2000), (4, 0)])
async def test_the_time_of_a_record_of_another_cluster_is_read(offset: int, made_at: int) -> None:
    async with running_cluster() as upstream:
        harness = Harness(lambda store: UpstreamLogs(upstream.client, store))
        await harness.start()
        try:
            await harness.create_topic(name="t")
            for time in (1000, 2000):
                upstream.cluster.append(batch(2, time=time))
            request = pb.ListOffsetsRequest()
            request.partitions.add(topic_id=TOPIC, partition=0, timestamp=-1, made_at_offset=offset)
            (found,) = (await harness.stub.ListOffsets(request)).partitions
            assert found.made_at in (made_at, made_at + 1 if made_at else 0)
        finally:
            await harness.stop()
