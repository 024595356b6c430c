"""Calls on record logs: look up offsets, delete records, end transactions. Each partition has its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.aio import Turns
from sharebroker_server.record_log.core import addressed
from sharebroker_server.record_log.core.batch import gaps
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.log_reader import LogReader
from sharebroker_server.rpc.errors import wire
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition
from sharebroker_server.share_partition_leader.log.scheduled import scheduled_count

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3
"""The record with the highest timestamp (Kafka: ListOffsetsRequest.MAX_TIMESTAMP)."""


class _PartitionRequest(Protocol):
    topic_id: str
    partition: int


class _PartitionResponse(_PartitionRequest, Protocol):
    error_code: Any
    error_message: str


A = TypeVar("A", bound=_PartitionRequest)
R = TypeVar("R", bound=_PartitionResponse)

_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of the log that one call reads at most."""

Range = pb.InspectRecordsResponse.OffsetRange
Response = pb.InspectRecordsResponse.Partition


async def each(
    leadership: Leadership,
    partitions: Iterable[A],
    make: Callable[..., R],
    act: Callable[[LedPartition, A, R], Awaitable[None]],
) -> list[R]:
    """One response per partition, in order; an error of one partition goes into its response."""

    async def call(part: A) -> R:
        response = make(topic_id=part.topic_id, partition=part.partition)
        try:
            await act(await leadership.led(part.topic_id, part.partition), part, response)
        except KafkaError as error:
            response.error_code = wire(error.code)
            response.error_message = error.message
        return response

    return list(await asyncio.gather(*map(call, partitions)))


async def list_offsets(
    leadership: Leadership,
    turns: Turns,
    isolation_level: int,
    led: LedPartition,
    part: pb.ListOffsetsRequest.Partition,
    response: pb.ListOffsetsResponse.Partition,
) -> None:
    """Looks up an offset (Kafka: ListOffsets)."""
    log = led.log
    if log.is_behind:
        await log.refresh()
    end = log.last_stable_offset if isolation_level > 0 else log.records_end_offset
    response.leader_epoch = log.epoch
    response.offset, response.timestamp = await _offset_at(log, part.timestamp, end)
    if part.HasField("made_at_offset") and part.made_at_offset < end:
        response.made_at = max(await log.time_of(max(part.made_at_offset, log.log_start_offset)), 0)
    loaded = led.ready.get(part.locked_by_group)
    in_flight = None if loaded is None else loaded.core.in_flight
    if in_flight is not None:
        response.locked = in_flight.locked
    if part.HasField("scheduled_from_offset") and log.transactions.schedules.ranges:
        await turns.next()  # a count takes milliseconds if there are thousands of ranges
        response.scheduled = scheduled_count(
            log.transactions, part.scheduled_from_offset, leadership.stored_now_ms(), in_flight
        )


async def delete_records(
    led: LedPartition, part: pb.DeleteRecordsRequest.Partition, response: pb.DeleteRecordsResponse.Partition
) -> None:
    """Moves the log start offset."""
    response.low_watermark = await led.own_log.delete_records(part.offset)
    led.wake()


async def recall_record(
    leadership: Leadership, led: LedPartition, part: pb.RecallRecordsRequest.Partition, _: Any
) -> None:
    """Recalls a scheduled record, by the clock by which it would be delivered."""
    await led.own_log.recall(part.offset, leadership.stored_now_ms)


async def write_txn_marker(led: LedPartition, part: pb.WriteTxnMarkersRequest.Marker, _: Any) -> None:
    """Appends a transaction marker."""
    await led.own_log.end_transaction(
        Marker(part.producer_id, part.producer_epoch, part.coordinator_epoch, part.transaction_result)
    )


async def describe_producers(
    led: LedPartition, _: delivery.TopicPartition, response: pb.DescribeProducersResponse.Partition
) -> None:
    """Lists the active producers."""
    for producer_id, state in sorted(led.log.transactions.producers.items()):
        response.active_producers.add(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.batches[-1].last_sequence if state.batches else -1,
            last_timestamp=state.timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction_start,
        )


async def describe_log(
    led: LedPartition, _: delivery.TopicPartition, response: pb.DescribeLogsResponse.Partition
) -> None:
    """Reports the size of the log."""
    response.size = led.log.size


async def inspect_records(
    group_id: str, led: LedPartition, part: pb.InspectRecordsRequest.Partition, response: Response
) -> None:
    """Reports what is locked or waits, and missing offsets: the persisted state does not show them.

    Changes nothing.
    """
    log = led.log
    response.log_start_offset, response.log_end_offset = log.log_start_offset, log.records_end_offset
    loaded = led.ready.get(group_id)
    if loaded is not None:
        in_flight = loaded.core.in_flight
        response.in_delivery.extend(_range(lock.first, lock.last) for lock in in_flight.held())
        response.in_delivery.extend(_range(*waiting) for waiting in in_flight.waiting_ranges())
    notes = log.transactions.notes
    if notes.attached:
        start, end = log.log_start_offset, log.records_end_offset
        for_others = log.transactions.for_others(group_id, start, end)
        response.for_others.extend(_range(*span) for span in for_others)
        copied = addressed.copied(notes.items(), group_id)
        response.copied.extend(
            pb.InspectRecordsResponse.CopiedRange(first_offset=first, last_offset=last, copy_offset=copy)
            for first, last, copy in copied
        )
    await _read(log, part.from_offset, response)


async def _offset_at(log: LogReader, timestamp: int, end: int) -> tuple[int, int]:
    """The offset for a timestamp and the time of its record, or -1; records from `end` on are ignored."""
    if timestamp == EARLIEST:
        return log.log_start_offset, -1
    if timestamp == LATEST:
        return end, -1
    if timestamp < NEWEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{timestamp} is not a timestamp, -1, -2 or -3.")
    found = await (log.offset_of_newest() if timestamp == NEWEST else log.offset_for_timestamp(timestamp))
    return found if found is not None and found.offset < end else (-1, -1)


async def _read(log: LogReader, offset: int, response: Response) -> None:
    offset = max(offset, response.log_start_offset) if offset >= 0 else response.log_end_offset
    batches = await log.read(offset, _AT_ONCE) if offset < response.log_end_offset else []
    response.markers.extend(
        _range(batch.base_offset, batch.last_offset) for batch in batches if batch.control
    )
    response.next_offset = batches[-1].last_offset + 1 if batches else response.log_end_offset
    response.missing.extend(_range(*gap) for gap in gaps(batches, offset, response.next_offset))


def _range(first: int, last: int) -> Range:
    return Range(first_offset=first, last_offset=last)
