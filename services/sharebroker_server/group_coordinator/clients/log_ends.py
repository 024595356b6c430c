"""Asks the leaders of partitions where their logs begin and end: what lag is counted from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.cluster.router import Peer

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub,
    )

LATEST: Final = -1
EARLIEST: Final = -2
TIMEOUT: Final = 5.0
"""Seconds for one call."""


class LogEnd(NamedTuple):
    """The offset behind a log's last record; when a record that was asked for was made (ms), 0: not known."""

    offset: int
    made_at: int = 0


Starts = Mapping[TopicIdPartition, int | KafkaError]
Ends = Mapping[TopicIdPartition, LogEnd | KafkaError]


class LogEnds(Protocol):
    """Where partitions begin and end."""

    async def of(self, partitions: Mapping[TopicIdPartition, int]) -> Ends:
        """Where each partition ends, and when the record at the offset told with it was made; or why not."""

    async def starts(self, partitions: Collection[TopicIdPartition]) -> Starts:
        """The first offset of each partition that can be read, or why it is not known."""


class Leaders(Protocol):
    """Finds leaders (`sharebroker_server.cluster.router`)."""

    async def leader(self, topic_id: str, partition: int) -> Peer[SharePartitionLeaderServiceAsyncStub]:
        """Who leads the partition, or is to. Raises KafkaError."""

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """Look it up anew."""


class LeaderLogEnds:
    """Asks each partition's leader."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    async def of(self, partitions: Mapping[TopicIdPartition, int]) -> Ends:
        """See LogEnds."""
        asked = (self._offset(one, LATEST, offset) for one, offset in partitions.items())
        return dict(zip(partitions, await asyncio.gather(*asked), strict=True))

    async def starts(self, partitions: Collection[TopicIdPartition]) -> Starts:
        """See LogEnds."""
        found = await asyncio.gather(*(self._offset(one, EARLIEST) for one in partitions))
        starts = (one if isinstance(one, KafkaError) else one.offset for one in found)
        return dict(zip(partitions, starts, strict=True))

    async def _offset(
        self, partition: TopicIdPartition, timestamp: int, made_at_offset: int | None = None
    ) -> LogEnd | KafkaError:
        asked = pb.ListOffsetsRequest.Partition(
            topic_id=partition.topic_id,
            partition=partition.partition,
            timestamp=timestamp,
            made_at_offset=made_at_offset,
        )
        try:
            leader = await self._leaders.leader(*partition)
            answer = await leader.stub.ListOffsets(pb.ListOffsetsRequest(partitions=[asked]), timeout=TIMEOUT)
            (found,) = answer.partitions
            if found.error_code:
                raise KafkaError(ErrorCode(found.error_code), found.error_message)
        except KafkaError as error:
            self._leaders.forget_leader(*partition)
            return error
        return LogEnd(found.offset, found.made_at)
