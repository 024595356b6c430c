"""Calls on record logs: append, look offsets up, delete. Each partition has its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

from libs.rpc.in_band import wire
from services.share_partition_leader.service.leadership import Leadership, LedPartition
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb

LATEST: Final = -1
EARLIEST: Final = -2


class _Asked(Protocol):
    topic_id: str
    partition: int


class _Answer(_Asked, Protocol):
    error_code: Any
    error_message: str


A = TypeVar("A", bound=_Asked)
R = TypeVar("R", bound=_Answer)


async def produce(leadership: Leadership, request: pb.ProduceRequest) -> list[pb.ProduceResponse.Partition]:
    """Appends the batches of each partition; answered when durable."""

    async def append(
        led: LedPartition, asked: pb.ProduceRequest.Partition, answer: pb.ProduceResponse.Partition
    ) -> None:
        appended = await led.log.append(asked.record_batches)
        answer.base_offset = appended.base_offset
        answer.last_offset = appended.last_offset
        answer.log_append_time_ms = appended.log_append_time
        answer.log_start_offset = led.log.log_start_offset

    return await _each(leadership, request.partitions, pb.ProduceResponse.Partition, append)


async def list_offsets(
    leadership: Leadership, request: pb.ListOffsetsRequest
) -> list[pb.ListOffsetsResponse.Partition]:
    """Looks an offset up in each partition. Kafka: ListOffsets."""
    return await _each(leadership, request.partitions, pb.ListOffsetsResponse.Partition, _list_offset)


async def delete_records(
    leadership: Leadership, request: pb.DeleteRecordsRequest
) -> list[pb.DeleteRecordsResponse.Partition]:
    """Moves the log start of each partition."""

    async def delete(
        led: LedPartition,
        asked: pb.DeleteRecordsRequest.Partition,
        answer: pb.DeleteRecordsResponse.Partition,
    ) -> None:
        answer.low_watermark = await led.log.delete_records(asked.offset)
        led.wake()

    return await _each(leadership, request.partitions, pb.DeleteRecordsResponse.Partition, delete)


async def _list_offset(
    led: LedPartition, asked: pb.ListOffsetsRequest.Partition, answer: pb.ListOffsetsResponse.Partition
) -> None:
    log = led.log
    answer.leader_epoch = log.epoch
    answer.timestamp = -1
    if asked.timestamp == EARLIEST:
        answer.offset = log.log_start_offset
    elif asked.timestamp == LATEST:
        answer.offset = log.log_end_offset
    elif asked.timestamp < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{asked.timestamp} is not a timestamp, -1 or -2.")
    else:
        found = await log.offset_for_timestamp(asked.timestamp)
        answer.offset = -1 if found is None else found


async def _each(
    leadership: Leadership,
    partitions: Iterable[A],
    make: Callable[..., R],
    act: Callable[[LedPartition, A, R], Awaitable[None]],
) -> list[R]:
    async def one(asked: A) -> R:
        answer = make(topic_id=asked.topic_id, partition=asked.partition)
        try:
            await act(await leadership.led(asked.topic_id, asked.partition), asked, answer)
        except KafkaError as error:
            answer.error_code = wire(error.code)
            answer.error_message = error.message
        return answer

    asked = list(partitions)
    if len(asked) == 1:
        return [await one(asked[0])]
    return list(await asyncio.gather(*(one(each) for each in asked)))
