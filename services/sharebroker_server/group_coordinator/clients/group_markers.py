"""Tells the coordinators of consumer groups how a transaction ended, and leaders beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.internal_topics import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.clients.markers import TIMEOUT, Markers
from sharebroker_server.group_coordinator.core.transactions.model import PREPARE_COMMIT, Transaction

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )

_logger = logging.getLogger(__name__)

_DONE: Final = ErrorCode.INVALID_PRODUCER_EPOCH
"""A later epoch of the producer can be there only when this transaction was ended before."""


class Coordinators(Protocol):
    """Finds group coordinators (`sharebroker_server.cluster.router`)."""

    async def group_coordinator(self, shard: int) -> Stub:
        """Who coordinates the groups of a shard. Raises KafkaError."""

    def forget_group_coordinator(self, shard: int) -> None:
        """Look it up anew."""


class GroupMarkers:
    """Sends one call to each shard: partitions here are those of __consumer_offsets."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """See Markers."""
        some = sorted(partitions)
        done = await asyncio.gather(*(self._mark(one.partition, ending, coordinator_epoch) for one in some))
        return [one for one, is_done in zip(some, done, strict=True) if not is_done]

    async def _mark(self, shard: int, ending: Transaction, epoch: int) -> bool:
        request = pb.CompleteTransactionRequest(
            shard=shard,
            producer_id=ending.producer_id,
            producer_epoch=ending.producer_epoch,
            transaction_result=ending.state is PREPARE_COMMIT,
            coordinator_epoch=epoch,
        )
        try:
            stub = await self._coordinators.group_coordinator(shard)
            await stub.CompleteTransaction(request, timeout=TIMEOUT)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                raise
            if error.code is not _DONE:
                _logger.info("no marker yet in shard %s of the group coordinator: %s", shard, error)
                self._coordinators.forget_group_coordinator(shard)
                return False
        return True


class AllMarkers:
    """Markers for partitions with records, and for those that stand for consumer groups."""

    def __init__(self, leaders: Markers, groups: Markers) -> None:
        self._leaders = leaders
        self._groups = groups

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """See Markers."""
        groups = [one for one in partitions if one.topic_id == OFFSETS_TOPIC_ID]
        records = [one for one in partitions if one.topic_id != OFFSETS_TOPIC_ID]
        left = await asyncio.gather(
            self._leaders.write(ending, records, coordinator_epoch),
            self._groups.write(ending, groups, coordinator_epoch),
        )
        return [one for some in left for one in some]
