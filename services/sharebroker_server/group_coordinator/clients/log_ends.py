"""Log starts, log ends, locks and scheduled records, requested from leaders of partitions, for the lag."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.group_coordinator.clients.markers import LeaderFinder

LATEST: Final = -1
EARLIEST: Final = -2
TIMEOUT: Final = 5.0
"""Seconds for one call."""


class LogEnd(NamedTuple):
    """A log end offset, the timestamp (ms) of a requested record or 0, and numbers of the group's records.

    `locked`: with a lock. `scheduled`: from the start offset on, with a delivery time to come.
    """

    offset: int
    timestamp: int = 0
    locked: int = 0
    scheduled: int = 0


Starts = Mapping[TopicIdPartition, int | KafkaError]
Ends = Mapping[TopicIdPartition, LogEnd | KafkaError]


class LogEnds(Protocol):
    """Finds the first and last offsets of partitions."""

    async def of(self, group_id: str, partitions: Mapping[TopicIdPartition, int]) -> Ends:
        """Returns each partition's log end, or the error.

        With the timestamp of the record at the given offset, and the numbers of records that the group locked
        and that are scheduled from that offset on.
        """

    async def starts(self, partitions: Collection[TopicIdPartition]) -> Starts:
        """Returns the first readable offset of each partition, or the error."""


class LeaderLogEnds:
    """Sends one request per partition to its leader."""

    def __init__(self, leaders: LeaderFinder) -> None:
        self._leaders = leaders

    async def of(self, group_id: str, partitions: Mapping[TopicIdPartition, int]) -> Ends:
        """Returns each partition's log end; a leader that has not loaded the share-partition has no locks."""
        found = (self._offset(key, LATEST, offset, group_id) for key, offset in partitions.items())
        return dict(zip(partitions, await asyncio.gather(*found), strict=True))

    async def starts(self, partitions: Collection[TopicIdPartition]) -> Starts:
        """Returns the first readable offset of each partition, or the error."""
        found = await asyncio.gather(*(self._offset(key, EARLIEST) for key in partitions))
        starts = (start if isinstance(start, KafkaError) else start.offset for start in found)
        return dict(zip(partitions, starts, strict=True))

    async def _offset(
        self,
        partition: TopicIdPartition,
        timestamp: int,
        made_at_offset: int | None = None,
        group_id: str | None = None,
    ) -> LogEnd | KafkaError:
        requested = pb.ListOffsetsRequest.Partition(
            topic_id=partition.topic_id,
            partition=partition.partition,
            timestamp=timestamp,
            made_at_offset=made_at_offset,
            locked_by_group=group_id,
            scheduled_from_offset=made_at_offset,
        )
        try:
            leader = await self._leaders.leader(*partition)
            response = await leader.stub.ListOffsets(
                pb.ListOffsetsRequest(partitions=[requested]), timeout=TIMEOUT
            )
            (found,) = response.partitions
            if found.error_code:
                raise KafkaError(ErrorCode(found.error_code), found.error_message)
        except KafkaError as error:
            self._leaders.forget_leader(*partition)
            return error
        return LogEnd(found.offset, found.made_at, found.locked, found.scheduled)
