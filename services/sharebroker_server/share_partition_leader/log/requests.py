"""Calls on record logs: append, look offsets up, delete, end transactions. Each partition has its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.cluster.transaction_check import Claim
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition
from sharebroker_server.share_partition_leader.log.transaction_verification import TransactionalAppends

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3
"""Of the highest timestamp (Kafka: ListOffsetsRequest.MAX_TIMESTAMP)."""


class _Asked(Protocol):
    topic_id: str
    partition: int


class _Answer(_Asked, Protocol):
    error_code: Any
    error_message: str


A = TypeVar("A", bound=_Asked)
R = TypeVar("R", bound=_Answer)


async def produce(
    leadership: Leadership, appends: TransactionalAppends, request: pb.ProduceRequest
) -> list[pb.ProduceResponse.Partition]:
    """Appends the batches of each partition; answered when durable."""
    claim = Claim(request.transactional_id, request.adds_partitions) if request.transactional_id else None

    async def append(
        led: LedPartition, asked: pb.ProduceRequest.Partition, answer: pb.ProduceResponse.Partition
    ) -> None:
        appended = await _append(led, appends, asked.record_batches, claim)
        answer.base_offset = appended.base_offset
        answer.last_offset = appended.last_offset
        answer.log_append_time_ms = appended.log_append_time
        answer.log_start_offset = led.log.log_start_offset

    return await each(leadership, request.partitions, pb.ProduceResponse.Partition, append)


async def _append(
    led: LedPartition, appends: TransactionalAppends, data: bytes, claim: Claim | None
) -> Appended:
    """Tells of traced records, where this process traces."""
    traces = led.traces
    traced = traces.find(data) if traces is not None else ()
    if traces is None or not traced:
        return await appends.append(led, data, claim)
    return await traces.append(traced, appends.append(led, data, claim))


async def list_offsets(
    leadership: Leadership, request: pb.ListOffsetsRequest
) -> list[pb.ListOffsetsResponse.Partition]:
    """Looks an offset up in each partition. Kafka: ListOffsets."""

    async def look_up(
        led: LedPartition, asked: pb.ListOffsetsRequest.Partition, answer: pb.ListOffsetsResponse.Partition
    ) -> None:
        log = led.log
        end = log.last_stable_offset if request.isolation_level > 0 else log.log_end_offset
        answer.leader_epoch = log.epoch
        answer.offset, answer.timestamp = await _offset_at(log, asked.timestamp, end)
        if asked.HasField("made_at_offset") and asked.made_at_offset < end:
            answer.made_at = max(log.time_of(max(asked.made_at_offset, log.log_start_offset)), 0)

    return await each(leadership, request.partitions, pb.ListOffsetsResponse.Partition, look_up)


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

    return await each(leadership, request.partitions, pb.DeleteRecordsResponse.Partition, delete)


async def write_txn_markers(
    leadership: Leadership, request: pb.WriteTxnMarkersRequest
) -> list[pb.WriteTxnMarkersResponse.Partition]:
    """Ends a transaction in each partition."""

    async def end(
        led: LedPartition, asked: pb.WriteTxnMarkersRequest.Marker, _: pb.WriteTxnMarkersResponse.Partition
    ) -> None:
        await led.log.end_transaction(
            Marker(asked.producer_id, asked.producer_epoch, asked.coordinator_epoch, asked.transaction_result)
        )

    return await each(leadership, request.markers, pb.WriteTxnMarkersResponse.Partition, end)


async def describe_producers(
    leadership: Leadership, request: pb.DescribeProducersRequest
) -> list[pb.DescribeProducersResponse.Partition]:
    """What each partition knows of producers."""

    async def describe(
        led: LedPartition, _: delivery.TopicPartition, answer: pb.DescribeProducersResponse.Partition
    ) -> None:
        for producer_id, state in sorted(led.log.transactions.producers().items()):
            answer.active_producers.add(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.batches[-1].last_sequence if state.batches else -1,
                last_timestamp=state.timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.transaction_start,
            )

    return await each(leadership, request.partitions, pb.DescribeProducersResponse.Partition, describe)


async def describe_logs(
    leadership: Leadership, request: pb.DescribeLogsRequest
) -> list[pb.DescribeLogsResponse.Partition]:
    """How large each log is."""

    async def describe(
        led: LedPartition, _: delivery.TopicPartition, answer: pb.DescribeLogsResponse.Partition
    ) -> None:
        answer.size = led.log.size

    return await each(leadership, request.partitions, pb.DescribeLogsResponse.Partition, describe)


async def _offset_at(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int]:
    """The offset that is meant and its record's time, or -1; records from `end` on do not count."""
    if timestamp == EARLIEST:
        return log.log_start_offset, -1
    if timestamp == LATEST:
        return end, -1
    if timestamp < NEWEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{timestamp} is not a timestamp, -1, -2 or -3.")
    found = await (log.offset_of_newest() if timestamp == NEWEST else log.offset_for_timestamp(timestamp))
    return found if found is not None and found.offset < end else (-1, -1)


async def each(
    leadership: Leadership,
    partitions: Iterable[A],
    make: Callable[..., R],
    act: Callable[[LedPartition, A, R], Awaitable[None]],
) -> list[R]:
    """The answer for each partition, in order; what a call on one raises stands in its answer."""

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
