"""Produce, ListOffsets and DeleteRecords: each partition has its own result."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.producers import Verified
from sharebroker_server.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.world import ACCEPT, TOPIC, World, code


async def _produce(world: World, *parts: tuple[int, bytes]) -> list[pb.ProduceResponse.Partition]:
    request = pb.ProduceRequest()
    for partition, data in parts:
        request.partitions.add(topic_id=TOPIC, partition=partition, record_batches=data)
    return list((await world.stub.Produce(request)).partitions)


async def _offset(world: World, timestamp: int, isolation: int = 0) -> pb.ListOffsetsResponse.Partition:
    request = pb.ListOffsetsRequest(isolation_level=isolation)
    request.partitions.add(topic_id=TOPIC, partition=0, timestamp=timestamp)
    response: pb.ListOffsetsResponse = await world.stub.ListOffsets(request)
    return response.partitions[0]


async def _delete(world: World, offset: int) -> pb.DeleteRecordsResponse.Partition:
    request = pb.DeleteRecordsRequest()
    request.partitions.add(topic_id=TOPIC, partition=0, offset=offset)
    response: pb.DeleteRecordsResponse = await world.stub.DeleteRecords(request)
    return response.partitions[0]


async def test_records_get_the_next_offsets(world: World) -> None:
    await _produce(world, (0, batch(3)))
    (answer,) = await _produce(world, (0, batch(2) + batch(4)))
    assert (answer.base_offset, answer.last_offset, answer.log_start_offset) == (3, 8, 0)
    assert (answer.log_append_time_ms, code(answer)) == (-1, ErrorCode.NONE)


async def test_each_partition_is_answered_for_itself(world: World) -> None:
    fine, bad, corrupt = await _produce(world, (0, batch(3)), (5, batch(3)), (0, b"no batch"))
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
async def test_offsets_can_be_looked_up(world: World, timestamp: int, offset: int, time: int) -> None:
    await world.publish_bytes(batch(3, time=0))
    await world.publish_bytes(batch(3, time=1000))
    await _delete(world, 2)
    answer = await _offset(world, timestamp)
    assert (code(answer), answer.offset, answer.timestamp) == (ErrorCode.NONE, offset, time)
    assert answer.leader_epoch > 0


async def test_what_is_no_timestamp_is_refused(world: World) -> None:
    assert code(await _offset(world, -4)) is ErrorCode.INVALID_REQUEST


async def _mark(world: World, commit: bool, *, epoch: int = 0, coordinator: int = 1) -> ErrorCode:
    request = pb.WriteTxnMarkersRequest()
    request.markers.add(
        topic_id=TOPIC,
        producer_id=7,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        transaction_result=commit,
    )
    (answer,) = (await world.stub.WriteTxnMarkers(request)).partitions
    return code(answer)


async def _begin(world: World, count: int = 2) -> None:
    """A transaction of producer 7 with one batch."""
    log = (await world.leadership.led(TOPIC, 0)).log
    sequence = log.transactions.producers()[7].batches[-1].last_sequence + 1 if log.log_end_offset else 0
    data = batch(count, time=5000, producer=(7, 0, sequence), transactional=True)
    await log.append(data, Verified(log.log_end_offset, renews_epoch=False))


async def test_who_reads_what_is_committed_finds_nothing_behind_the_last_stable_offset(world: World) -> None:
    await _begin(world)
    for timestamp in (-1, 5000, -3):
        found = await _offset(world, timestamp, isolation=1)
        assert found.offset == (0 if timestamp == -1 else -1)
    assert await _mark(world, commit=True) is ErrorCode.NONE
    assert [(await _offset(world, timestamp, isolation=1)).offset for timestamp in (-1, 5000, -3)] == [
        3,
        0,
        1,
    ]


async def test_producers_are_described(world: World) -> None:
    await _begin(world)
    request = pb.DescribeProducersRequest(partitions=[delivery.TopicPartition(topic_id=TOPIC)])
    (described,) = (await world.stub.DescribeProducers(request)).partitions
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 0, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, 0)
    await _mark(world, commit=False, epoch=1, coordinator=4)
    (described,) = (await world.stub.DescribeProducers(request)).partitions
    (producer,) = described.active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (1, -1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (4, -1)


async def test_markers_are_fenced(world: World) -> None:
    assert await _mark(world, commit=True, epoch=2, coordinator=5) is ErrorCode.NONE
    assert await _mark(world, commit=True, epoch=1, coordinator=5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await _mark(world, commit=True, epoch=2, coordinator=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_deleted_records_are_not_delivered(world: World) -> None:
    await world.publish(3)
    await world.publish(3)
    assert (await _delete(world, 4)).low_watermark == 4
    assert code(await _delete(world, 7)) is ErrorCode.OFFSET_OUT_OF_RANGE
    (answer,) = await world.acquire()
    assert [(run.first_offset, run.last_offset) for run in answer.acquired] == [(4, 5)]
    assert (await _delete(world, -1)).low_watermark == 6


async def test_deleting_what_others_hold_makes_room_for_who_waits(world: World) -> None:
    await world.configure("share.partition.max.record.locks", "100")
    await world.publish(100)
    await world.acquire()
    await world.publish(5)
    waiting = asyncio.create_task(world.acquire(member="m2", max_wait_ms=20_000))
    share_partition = await world.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    before = asyncio.get_running_loop().time()
    await _delete(world, 50)
    (answer,) = await waiting
    assert asyncio.get_running_loop().time() == before
    assert [run.first_offset for run in answer.acquired] == [100]
    assert not (await world.acknowledge((100, 104, ACCEPT), member="m2")).error_code
