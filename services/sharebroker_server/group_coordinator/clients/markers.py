"""Transaction markers, sent to the leaders of partitions and to the coordinators of consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.names import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.core.transactions.model import PREPARE_COMMIT, Transaction
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.routing.router import Peer

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )
if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub,
    )

_log = structlog.get_logger()

TIMEOUT: Final = 10.0
"""Seconds for one call."""

_DELETED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Markers(Protocol):
    """Writes transaction markers."""

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; returns the partitions without a marker.

        Raises TRANSACTION_COORDINATOR_FENCED if a coordinator with a higher epoch has written a marker.
        """


class Leaders(Protocol):
    """Finds leaders (`sharebroker_server.routing.router`)."""

    async def leader(self, topic_id: str, partition: int) -> Peer[Stub]:
        """Returns the leader of a partition. Raises KafkaError."""

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """Drops the cached leader of a partition."""


class LeaderMarkers:
    """Sends one call per leader."""

    def __init__(self, leaders: Leaders, view: ClusterView) -> None:
        self._leaders = leaders
        self._view = view

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; returns the partitions without a marker."""
        by_leader: dict[str, tuple[Peer[Stub], list[TopicIdPartition]]] = {}
        unmarked: list[TopicIdPartition] = []
        for partition in sorted(partitions):
            try:
                peer = await self._leaders.leader(*partition)
            except KafkaError:
                unmarked.append(partition)
            else:
                by_leader.setdefault(peer.member.owner, (peer, []))[1].append(partition)
        rounds = (self._mark(peer, keys, ending, coordinator_epoch) for peer, keys in by_leader.values())
        return unmarked + [partition for keys in await asyncio.gather(*rounds) for partition in keys]

    async def _mark(
        self, peer: Peer[Stub], partitions: Sequence[TopicIdPartition], ending: Transaction, epoch: int
    ) -> list[TopicIdPartition]:
        request = pb.WriteTxnMarkersRequest(
            markers=[
                pb.WriteTxnMarkersRequest.Marker(
                    topic_id=partition.topic_id,
                    partition=partition.partition,
                    producer_id=ending.producer_id,
                    producer_epoch=ending.producer_epoch,
                    transaction_result=ending.state is PREPARE_COMMIT,
                    coordinator_epoch=epoch,
                )
                for partition in partitions
            ]
        )
        try:
            results = (await peer.stub.WriteTxnMarkers(request, timeout=TIMEOUT)).partitions
        except KafkaError as error:
            return [key for key in partitions if not self._is_done(key, error)]
        outcomes = (KafkaError(ErrorCode(result.error_code), result.error_message) for result in results)
        marked = zip(partitions, outcomes, strict=True)
        return [key for key, outcome in marked if not self._is_done(key, outcome)]

    def _is_done(self, partition: TopicIdPartition, outcome: KafkaError) -> bool:
        """Whether the partition needs no further attempt. Raises TRANSACTION_COORDINATOR_FENCED."""
        # A later producer epoch exists only if this transaction was completed before.
        if outcome.code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
            return True
        if outcome.code in _DELETED and self._view.topic_by_id(partition.topic_id) is None:
            return True
        if outcome.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            raise outcome
        _log.info(
            "transaction marker not written",
            topic_id=partition.topic_id,
            partition=partition.partition,
            error=str(outcome),
        )
        self._leaders.forget_leader(*partition)
        return False


_DONE: Final = ErrorCode.INVALID_PRODUCER_EPOCH
"""A later producer epoch exists only if this transaction was completed before."""


class Coordinators(Protocol):
    """Finds group coordinators (`sharebroker_server.routing.router`)."""

    async def group_coordinator(self, shard: int) -> GroupCoordinatorServiceAsyncStub:
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
        request = consumer_groups_pb2.CompleteTransactionRequest(
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
