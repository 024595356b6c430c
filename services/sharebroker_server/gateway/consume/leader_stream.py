"""One Deliver stream: a consumer's connection to one leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TYPE_CHECKING, cast

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.config import UNREAD_MESSAGES
from sharebroker_server.rpc.local import LocalStub
from sharebroker_server.rpc.partition_errors import wire

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )
    from sharebroker_server.cluster.router import Peer

_LAST_OFFSET = 2**63 - 1


class LeaderStream:
    """What goes to one leader waits in a bounded queue; what comes back is read from `responses`.

    Acknowledgements sent to another process are remembered until answered, so that they get a result when it
    dies; within this process nothing gets lost.
    """

    __slots__ = ("_opening", "_queue", "_served", "_stub", "_unanswered", "finished", "partitions")

    def __init__(self, peer: Peer[Stub], opening: pb.DeliverRequest.Open) -> None:
        self.partitions: frozenset[TopicIdPartition] = frozenset()
        self.finished = False
        self._served: set[TopicIdPartition] = set()
        self._stub = peer.stub
        self._opening: pb.DeliverRequest.Open | None = opening
        self._queue: asyncio.Queue[pb.DeliverRequest | None] = asyncio.Queue(UNREAD_MESSAGES)
        self._unanswered: set[int] | None = None if isinstance(peer.stub, LocalStub) else set()

    def responses(self) -> AsyncGenerator[pb.DeliverResponse, None]:
        """Open the stream. Raises KafkaError where it breaks."""
        stream = self._stub.Deliver(self._requests())
        return cast("AsyncGenerator[pb.DeliverResponse, None]", stream)

    async def serve(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Deliver from these partitions from here on."""
        self.partitions = partitions
        self._served |= partitions
        parts = [
            delivery.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in sorted(partitions)
        ]
        request = pb.DeliverRequest(partitions=pb.DeliverRequest.Partitions(partitions=parts))
        if self._opening is not None:
            request.open.CopyFrom(self._opening)
            self._opening = None
        await self._queue.put(request)

    async def send(self, request: pb.DeliverRequest) -> None:
        """Pass credit and acknowledgements on; waits while the leader does not read."""
        if self._unanswered is not None:
            self._unanswered.update(ack.id for ack in request.acknowledgements)
        await self._queue.put(request)

    def finish(self) -> None:
        """Nothing more will be sent; the leader answers what is under way and ends."""
        self.finished = True
        if self._queue.empty():
            self._queue.put_nowait(None)

    def answered(self, response: pb.DeliverResponse) -> None:
        """Note which acknowledgements have their result."""
        if self._unanswered is not None:
            self._unanswered.difference_update(result.id for result in response.results)

    def close(self) -> pb.DeliverResponse:
        """The leader is gone: let go of who waits to send; what the consumer is to be told."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self.finish()  # behind what was dropped: it ends whoever waits for requests
        lost = [
            delivery.LockLost(topic_id=p.topic_id, partition=p.partition, last_offset=_LAST_OFFSET)
            for p in sorted(self._served)
        ]
        return pb.DeliverResponse(lock_lost=lost, results=lost_results(sorted(self._unanswered or ())))

    async def _requests(self) -> AsyncIterator[pb.DeliverRequest]:
        while not (self.finished and self._queue.empty()):
            request = await self._queue.get()
            if request is not None:
                yield request


def lost_results(ack_ids: Iterable[int]) -> list[delivery.AcknowledgementResult]:
    """Results of acknowledgements that a leader took with it, or was gone for."""
    return [
        delivery.AcknowledgementResult(
            id=ack_id,
            error_code=wire(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            error_message="The leader went away; it may or may not have applied this.",
            last_offset=_LAST_OFFSET,
        )
        for ack_id in ack_ids
    ]
