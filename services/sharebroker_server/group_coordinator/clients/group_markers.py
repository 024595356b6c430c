"""Transaction markers for consumer groups, sent to their group coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.names import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.clients.markers import TIMEOUT, Markers
from sharebroker_server.group_coordinator.core.transactions.model import PREPARE_COMMIT, Transaction

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )

_log = structlog.get_logger()

_DONE: Final = ErrorCode.INVALID_PRODUCER_EPOCH
"""A later producer epoch exists only if this transaction was completed before."""


class Coordinators(Protocol):
    """Finds group coordinators (`sharebroker_server.routing.router`)."""

    async def group_coordinator(self, shard: int) -> Stub:
        """Returns the stub of a shard's group coordinator. Raises KafkaError."""

    def forget_group_coordinator(self, shard: int) -> None:
        """Drops the cached coordinator of a shard."""


class GroupMarkers:
    """Sends one call per shard; the partitions are those of __consumer_offsets."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; returns the partitions without a marker."""
        keys = sorted(partitions)
        done = await asyncio.gather(*(self._mark(key.partition, ending, coordinator_epoch) for key in keys))
        return [key for key, is_done in zip(keys, done, strict=True) if not is_done]

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
                _log.info(
                    "transaction marker not written", shard=f"group-coordinator:{shard}", error=str(error)
                )
                self._coordinators.forget_group_coordinator(shard)
                return False
        return True


class AllMarkers:
    """Markers for partitions of topics and of __consumer_offsets."""

    def __init__(self, leaders: Markers, groups: Markers) -> None:
        self._leaders = leaders
        self._groups = groups

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; returns the partitions without a marker."""
        groups = [key for key in partitions if key.topic_id == OFFSETS_TOPIC_ID]
        records = [key for key in partitions if key.topic_id != OFFSETS_TOPIC_ID]
        unmarked = await asyncio.gather(
            self._leaders.write(ending, records, coordinator_epoch),
            self._groups.write(ending, groups, coordinator_epoch),
        )
        return [key for keys in unmarked for key in keys]
