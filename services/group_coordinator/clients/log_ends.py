"""Asks the leaders of partitions where their logs end: what lag is counted from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from libs.rpc.router import Router
from services.group_coordinator.core.model import TopicPartition
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb

LATEST: Final = -1
TIMEOUT: Final = 5.0
"""Seconds for one call."""

Outcomes = Mapping[TopicPartition, int | KafkaError]


class LogEnds(Protocol):
    """Where partitions end."""

    async def of(self, partitions: Collection[TopicPartition]) -> Outcomes:
        """The offset behind the last record of each partition, or why it is not known."""


class LeaderLogEnds:
    """Asks each partition's leader, in one call for each leader."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def of(self, partitions: Collection[TopicPartition]) -> Outcomes:
        """See LogEnds."""
        return dict(zip(partitions, await asyncio.gather(*map(self._end, partitions)), strict=True))

    async def _end(self, partition: TopicPartition) -> int | KafkaError:
        asked = pb.ListOffsetsRequest.Partition(
            topic_id=partition.topic_id, partition=partition.partition, timestamp=LATEST
        )
        try:
            leader = await self._router.leader(*partition)
            answer = await leader.stub.ListOffsets(pb.ListOffsetsRequest(partitions=[asked]), timeout=TIMEOUT)
        except KafkaError as error:
            self._router.forget_leader(*partition)
            return error
        (found,) = answer.partitions
        if found.error_code:
            return KafkaError(ErrorCode(found.error_code), found.error_message)
        return found.offset
