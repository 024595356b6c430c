"""A consumer's stream to one leader, and what is reported when that leader fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.leader_calls.values import (
    DeliverInput,
    DeliverOpen,
    DeliverOutput,
    LostRange,
    StreamAckResult,
)
from sharebroker_server.routing.router import LeaderPeer

_LAST_OFFSET: Final = 2**63 - 1
_LEADER_FAILED: Final = "The leader failed; it may or may not have applied this."


class LeaderStream:
    """Adds to a `DeliverStream` the partitions that it serves now, and those that it ever served."""

    __slots__ = ("_served", "finished", "owner", "partitions", "stream")

    def __init__(self, peer: LeaderPeer, opening: DeliverOpen) -> None:
        self.owner = peer.member.owner
        self.stream = peer.calls.deliver(opening)
        self.partitions: frozenset[TopicIdPartition] = frozenset()
        self.finished = False
        self._served: set[TopicIdPartition] = set()

    async def serve(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Replaces the partitions to deliver from. The first call opens the stream."""
        self.partitions = partitions
        self._served |= partitions
        await self.stream.send(DeliverInput(partitions))

    def finish(self) -> None:
        """Half-closes the stream; the leader completes what is pending and ends it."""
        self.finished = True
        self.stream.finish()

    def close(self) -> DeliverOutput:
        """Ends the stream after its leader failed; returns the lost locks and the results to report."""
        self.finished = True
        self.stream.close()
        lost = [LostRange(*part, 0, _LAST_OFFSET) for part in sorted(self._served)]
        results = [_lost_result(ack_id) for ack_id in self.stream.unanswered()]
        return DeliverOutput([], results, lost, [])


def lost_results(acks: Iterable[delivery.Acknowledgement]) -> DeliverOutput:
    """The results of acknowledgements whose leader has failed."""
    return DeliverOutput([], [_lost_result(ack.id) for ack in acks], [], [])


def _lost_result(ack_id: int) -> StreamAckResult:
    return StreamAckResult(ack_id, 0, _LAST_OFFSET, ErrorCode.NOT_LEADER_OR_FOLLOWER, _LEADER_FAILED)
