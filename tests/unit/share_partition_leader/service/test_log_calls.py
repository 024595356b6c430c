"""Produce, ListOffsets and DeleteRecords: each partition has its own result."""

from __future__ import annotations

import asyncio

import pytest

from libs.testkit.waiting import eventually
from sharebroker.errors import ErrorCode
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.service.world import ACCEPT, TOPIC, World, code


async def _produce(world: World, *parts: tuple[int, bytes]) -> list[pb.ProduceResponse.Partition]:
    request = pb.ProduceRequest()
    for partition, data in parts:
        request.partitions.add(topic_id=TOPIC, partition=partition, record_batches=data)
    return list((await world.stub.Produce(request)).partitions)


async def _offset(world: World, timestamp: int) -> pb.ListOffsetsResponse.Partition:
    request = pb.ListOffsetsRequest()
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
    ("timestamp", "offset"), [(-1, 6), (-2, 2), (1000, 3), (1001, 4), (1002, 5), (1003, -1)]
)
async def test_offsets_can_be_looked_up(world: World, timestamp: int, offset: int) -> None:
    await world.publish_bytes(batch(3, time=0))
    await world.publish_bytes(batch(3, time=1000))
    await _delete(world, 2)
    answer = await _offset(world, timestamp)
    assert (code(answer), answer.offset, answer.timestamp) == (ErrorCode.NONE, offset, -1)
    assert answer.leader_epoch > 0


async def test_what_is_no_timestamp_is_refused(world: World) -> None:
    assert code(await _offset(world, -3)) is ErrorCode.INVALID_REQUEST


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
    await eventually(lambda: share_partition._waiting)
    before = asyncio.get_running_loop().time()
    await _delete(world, 50)
    (answer,) = await waiting
    assert asyncio.get_running_loop().time() == before
    assert [run.first_offset for run in answer.acquired] == [100]
    assert not (await world.acknowledge((100, 104, ACCEPT), member="m2")).error_code
