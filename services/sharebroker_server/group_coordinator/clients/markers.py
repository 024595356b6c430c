"""Tells the leaders of partitions how a transaction ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.cluster.router import Peer
from sharebroker_server.group_coordinator.core.transactions.model import PREPARE_COMMIT, Transaction
from sharebroker_server.group_coordinator.core.view import ClusterView

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

_logger = logging.getLogger(__name__)

TIMEOUT: Final = 10.0
"""Seconds for one call."""

_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Markers(Protocol):
    """Where markers are written."""

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """Tries once; those of the partitions that still have no marker.

        Raises TRANSACTION_COORDINATOR_FENCED where a later coordinator has written.
        """


class Leaders(Protocol):
    """Finds leaders (`sharebroker_server.cluster.router`)."""

    async def leader(self, topic_id: str, partition: int) -> Peer[Stub]:
        """Who leads the partition, or is to. Raises KafkaError."""

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """Look it up anew."""


class LeaderMarkers:
    """Sends one call to each leader."""

    def __init__(self, leaders: Leaders, view: ClusterView) -> None:
        self._leaders = leaders
        self._view = view

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        """See Markers."""
        by_leader: dict[str, tuple[Peer[Stub], list[TopicIdPartition]]] = {}
        left: list[TopicIdPartition] = []
        for partition in sorted(partitions):
            try:
                peer = await self._leaders.leader(*partition)
            except KafkaError:
                left.append(partition)
            else:
                by_leader.setdefault(peer.member.owner, (peer, []))[1].append(partition)
        rounds = (self._mark(peer, some, ending, coordinator_epoch) for peer, some in by_leader.values())
        return left + [partition for some in await asyncio.gather(*rounds) for partition in some]

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
            answers = (await peer.stub.WriteTxnMarkers(request, timeout=TIMEOUT)).partitions
        except KafkaError as error:
            return [one for one in partitions if not self._is_done(one, error)]
        refusals = (KafkaError(ErrorCode(answer.error_code), answer.error_message) for answer in answers)
        marked = zip(partitions, refusals, strict=True)
        return [one for one, refusal in marked if not self._is_done(one, refusal)]

    def _is_done(self, partition: TopicIdPartition, outcome: KafkaError) -> bool:
        """Whether nothing is left to do. Raises TRANSACTION_COORDINATOR_FENCED."""
        # A later epoch of the producer can be there only when this transaction was ended before.
        if outcome.code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
            return True
        if outcome.code in _GONE and self._view.topic_by_id(partition.topic_id) is None:
            return True
        if outcome.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            raise outcome
        _logger.info("no marker yet in %s: %s", partition, outcome)
        self._leaders.forget_leader(*partition)
        return False
