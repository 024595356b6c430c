"""Log ends: each partition's leader is queried; its error or absence concerns that partition alone."""

from __future__ import annotations

from typing import Any, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.group_coordinator.clients.log_ends import LeaderLogEnds, LogEnd
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import Peer
from sharebroker_server.rpc.errors import wire
from sharebroker_server.rpc.stubs import LocalStub

HERE, ELSEWHERE, LEADERLESS = TopicIdPartition("t", 0), TopicIdPartition("t", 1), TopicIdPartition("t", 2)


class Leader:
    """Leads partition 0 only."""

    async def ListOffsets(self, request: pb.ListOffsetsRequest, _context: object) -> pb.ListOffsetsResponse:
        (part,) = request.partitions
        offset = {-1: 42, -2: 7}[part.timestamp]
        response = pb.ListOffsetsResponse.Partition(
            topic_id=part.topic_id, partition=part.partition, offset=offset
        )
        if part.HasField("made_at_offset"):
            response.made_at = 1000 + part.made_at_offset
        if part.HasField("locked_by_group"):
            response.locked = {"g": 3}[part.locked_by_group]
        if part.HasField("scheduled_from_offset"):
            response.scheduled = 20 - part.scheduled_from_offset
        if part.partition:
            response.error_code = wire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return pb.ListOffsetsResponse(partitions=[response])


class Leaders:
    def __init__(self) -> None:
        self.forgotten: list[tuple[str, int]] = []

    async def leader(self, topic_id: str, partition: int) -> Peer[Any]:
        if partition == LEADERLESS.partition:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return Peer(ClusterMember("1/1", 1, frozenset(), ""), cast("Any", LocalStub(Leader())))

    def forget_leader(self, topic_id: str, partition: int) -> None:
        self.forgotten.append((topic_id, partition))


async def test_each_partition_has_its_own_result() -> None:
    leaders = Leaders()
    ends = await LeaderLogEnds(leaders).of("g", {HERE: 5, ELSEWHERE: 0, LEADERLESS: 0})
    assert ends[HERE] == LogEnd(42, 1005, 3, 15)
    assert await LeaderLogEnds(Leaders()).starts([HERE]) == {HERE: 7}
    assert {where: end.code for where, end in ends.items() if isinstance(end, KafkaError)} == {
        ELSEWHERE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        LEADERLESS: ErrorCode.LEADER_NOT_AVAILABLE,
    }
    assert leaders.forgotten == [ELSEWHERE, LEADERLESS]


async def test_no_partitions_make_no_calls() -> None:
    assert await LeaderLogEnds(Leaders()).of("g", {}) == {}
