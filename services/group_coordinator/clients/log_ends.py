"""Asks the leaders of partitions where their logs begin and end: what lag is counted from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from libs.rpc.router import Peer
from services.group_coordinator.core.model import TopicPartition
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub,
    )

LATEST: Final = -1
EARLIEST: Final = -2
TIMEOUT: Final = 5.0
"""Seconds for one call."""

Outcomes = Mapping[TopicPartition, int | KafkaError]


class LogEnds(Protocol):
    """Where partitions begin and end."""

    async def of(self, partitions: Collection[TopicPartition]) -> Outcomes:
        """The offset behind the last record of each partition, or why it is not known."""

    async def starts(self, partitions: Collection[TopicPartition]) -> Outcomes:
        """The first offset of each partition that can be read, or why it is not known."""


class Leaders(Protocol):
    """Finds leaders (`libs.rpc.router`)."""

    async def leader(self, topic_id: str, partition: int) -> Peer[SharePartitionLeaderServiceAsyncStub]:
        """Who leads the partition, or is to. Raises KafkaError."""

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """Look it up anew."""


class LeaderLogEnds:
    """Asks each partition's leader."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    async def of(self, partitions: Collection[TopicPartition]) -> Outcomes:
        """See LogEnds."""
        return await self._all(partitions, LATEST)

    async def starts(self, partitions: Collection[TopicPartition]) -> Outcomes:
        """See LogEnds."""
        return await self._all(partitions, EARLIEST)

    async def _all(self, partitions: Collection[TopicPartition], timestamp: int) -> Outcomes:
        found = await asyncio.gather(*(self._offset(one, timestamp) for one in partitions))
        return dict(zip(partitions, found, strict=True))

    async def _offset(self, partition: TopicPartition, timestamp: int) -> int | KafkaError:
        asked = pb.ListOffsetsRequest.Partition(
            topic_id=partition.topic_id, partition=partition.partition, timestamp=timestamp
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
        return found.offset
