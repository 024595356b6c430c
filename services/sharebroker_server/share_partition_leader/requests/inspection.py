"""Reports lock holders and missing offsets, which the persisted state does not show."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.batch import gaps
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition
from sharebroker_server.share_partition_leader.log.requests import each

_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of the log that one call reads at most."""

Range = pb.InspectRecordsResponse.OffsetRange
Response = pb.InspectRecordsResponse.Partition


async def inspect_records(leadership: Leadership, request: pb.InspectRecordsRequest) -> list[Response]:
    """One response per partition; loads nothing and changes nothing."""

    async def inspect(
        led: LedPartition, part: pb.InspectRecordsRequest.Partition, response: Response
    ) -> None:
        response.log_start_offset, response.log_end_offset = led.log.log_start_offset, led.log.log_end_offset
        loaded = leadership.loaded(request.group_id, part.topic_id, part.partition)
        if loaded is not None:
            response.in_delivery.extend(_range(lock.first, lock.last) for lock in loaded.core.held())
        await _read(led.log, part.from_offset, response)

    return await each(leadership, request.partitions, Response, inspect)


async def _read(log: PartitionLog, offset: int, response: Response) -> None:
    offset = max(offset, response.log_start_offset) if offset >= 0 else response.log_end_offset
    batches = await log.read(offset, _AT_ONCE) if offset < response.log_end_offset else []
    response.markers.extend(
        _range(batch.base_offset, batch.last_offset) for batch in batches if batch.control
    )
    response.next_offset = batches[-1].last_offset + 1 if batches else response.log_end_offset
    response.missing.extend(_range(*gap) for gap in gaps(batches, offset, response.next_offset))


def _range(first: int, last: int) -> Range:
    return Range(first_offset=first, last_offset=last)
