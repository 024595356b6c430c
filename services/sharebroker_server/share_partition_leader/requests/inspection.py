"""What can be told of a group's records beside its stored state: who holds them, and which are not there."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.batch import gaps
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition
from sharebroker_server.share_partition_leader.log.requests import each

_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of the log that one call reads."""

Range = pb.InspectRecordsResponse.OffsetRange
Answer = pb.InspectRecordsResponse.Partition


async def inspect_records(leadership: Leadership, request: pb.InspectRecordsRequest) -> list[Answer]:
    """Of each partition; nothing is loaded for it, and nothing changes."""

    async def look(led: LedPartition, asked: pb.InspectRecordsRequest.Partition, answer: Answer) -> None:
        answer.log_start_offset, answer.log_end_offset = led.log.log_start_offset, led.log.log_end_offset
        loaded = leadership.loaded(request.group_id, asked.topic_id, asked.partition)
        if loaded is not None:
            answer.in_delivery.extend(_range(lock.first, lock.last) for lock in loaded.core.held())
        await _read(led.log, asked.from_offset, answer)

    return await each(leadership, request.partitions, Answer, look)


async def _read(log: PartitionLog, offset: int, answer: Answer) -> None:
    offset = max(offset, answer.log_start_offset) if offset >= 0 else answer.log_end_offset
    batches = await log.read(offset, _AT_ONCE) if offset < answer.log_end_offset else []
    answer.markers.extend(_range(batch.base_offset, batch.last_offset) for batch in batches if batch.control)
    answer.next_offset = batches[-1].last_offset + 1 if batches else answer.log_end_offset
    answer.missing.extend(_range(*hole) for hole in gaps(batches, offset, answer.next_offset))


def _range(first: int, last: int) -> Range:
    return Range(first_offset=first, last_offset=last)
