"""Transaction markers, sent to the leaders of partitions and to the coordinators of consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.transactions.model import PREPARE_COMMIT, Transaction
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.routing.router import Peer

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

_log = structlog.get_logger()

TIMEOUT: Final = 10.0
"""Seconds for one call."""

_ENDED_BEFORE: Final = ErrorCode.INVALID_PRODUCER_EPOCH
"""A later producer epoch exists only if this transaction was completed before."""

_DELETED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Markers(Protocol):
    """Writes transaction markers."""

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; returns the partitions without a marker.

        Raises TRANSACTION_COORDINATOR_FENCED if a coordinator with a higher epoch has written a marker.
        """


class LeaderFinder(Protocol):
    """Finds leaders (`sharebroker_server.routing.router`)."""

    async def leader(self, topic_id: str, partition: int) -> Peer[Stub]:
        """Returns the leader of a partition. Raises KafkaError."""

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """Drops the cached leader of a partition."""


class PeerFinder(LeaderFinder, Protocol):
    """Finds leaders and group coordinators (`sharebroker_server.routing.router`)."""

    async def group_coordinator(self, shard: int) -> GroupCoordinatorServiceAsyncStub:
        """Returns the stub of a shard's group coordinator. Raises KafkaError."""

    def forget_group_coordinator(self, shard: int) -> None:
        """Drops the cached coordinator of a shard."""


class RoutedMarkers:
    """Sends one call per leader, and one per shard of the group coordinator.

    The offsets of a shard's consumer groups are a partition of __consumer_offsets.
    """

    def __init__(self, brokers: PeerFinder, view: MetadataImage) -> None:
        self._brokers = brokers
        self._view = view

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; returns the partitions without a marker."""
        marker = _MARKER.fields(ending) | {"coordinator_epoch": coordinator_epoch}
        unmarked: list[TopicIdPartition] = []
        by_leader: dict[str, tuple[Peer[Stub], list[TopicIdPartition]]] = {}
        of_groups = [partition for partition in sorted(partitions) if partition.topic_id == OFFSETS_TOPIC_ID]
        for partition in sorted({*partitions}.difference(of_groups)):
            try:
                peer = await self._brokers.leader(*partition)
            except KafkaError:
                unmarked.append(partition)
            else:
                by_leader.setdefault(peer.member.owner, (peer, []))[1].append(partition)
        calls = [self._mark_groups(partition, marker) for partition in of_groups]
        calls += [self._mark(peer, keys, marker) for peer, keys in by_leader.values()]
        return unmarked + [partition for keys in await asyncio.gather(*calls) for partition in keys]

    async def _mark(
        self, peer: Peer[Stub], partitions: Sequence[TopicIdPartition], marker: dict[str, Any]
    ) -> list[TopicIdPartition]:
        request = pb.WriteTxnMarkersRequest()
        for partition in partitions:
            request.markers.add(**partition._asdict(), **marker)
        try:
            results = (await peer.stub.WriteTxnMarkers(request, timeout=TIMEOUT)).partitions
        except KafkaError as error:
            return [key for key in partitions if not self._is_done(key, error)]
        outcomes = (KafkaError(ErrorCode(result.error_code), result.error_message) for result in results)
        marked = zip(partitions, outcomes, strict=True)
        return [key for key, outcome in marked if not self._is_done(key, outcome)]

    def _is_done(self, partition: TopicIdPartition, outcome: KafkaError) -> bool:
        """Whether the partition needs no further attempt. Raises TRANSACTION_COORDINATOR_FENCED."""
        if outcome.code in (ErrorCode.NONE, _ENDED_BEFORE):
            return True
        if outcome.code in _DELETED and self._view.topic_by_id(partition.topic_id) is None:
            return True
        if outcome.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            raise outcome
        _log.info("transaction marker not written", **partition._asdict(), error=str(outcome))
        self._brokers.forget_leader(*partition)
        return False

    async def _mark_groups(
        self, partition: TopicIdPartition, marker: dict[str, Any]
    ) -> list[TopicIdPartition]:
        shard = partition.partition
        try:
            stub = await self._brokers.group_coordinator(shard)
            request = consumer_groups_pb2.CompleteTransactionRequest(shard=shard, **marker)
            await stub.CompleteTransaction(request, timeout=TIMEOUT)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                raise
            if error.code is not _ENDED_BEFORE:
                _log.info(
                    "transaction marker not written", shard=f"group-coordinator:{shard}", error=str(error)
                )
                self._brokers.forget_group_coordinator(shard)
                return [partition]
        return []


_MARKER: Final = Conversion(
    Transaction,
    pb.WriteTxnMarkersRequest.Marker,
    {"state": Mapped("transaction_result", encode=lambda state: state is PREPARE_COMMIT)},
)
