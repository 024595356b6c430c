"""A consumer's stream to one leader."""

from __future__ import annotations

from typing import Any, cast

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.consume.leader_stream import LeaderStream, lost_results
from sharebroker_server.leader_calls.remote import RemoteLeader
from sharebroker_server.leader_calls.values import DeliverInput, DeliverOpen
from sharebroker_server.routing.router import LeaderPeer
from tests.unit.gateway.fakes import member


def stream() -> LeaderStream:
    stub: Any = None
    peer = LeaderPeer(member(1, "a:1"), stub, cast("Any", RemoteLeader(stub)))
    return LeaderStream(peer, DeliverOpen("g", "m"))


async def test_close_reports_locks_of_all_partitions_that_were_served() -> None:
    one = stream()
    await one.serve(frozenset({TopicIdPartition("t", 0)}))
    await one.serve(frozenset({TopicIdPartition("t", 1)}))
    lost = one.close()
    assert one.finished
    assert [(part.topic_id, part.partition, part.first) for part in lost.lost] == [("t", 0, 0), ("t", 1, 0)]


async def test_close_reports_acknowledgements_without_result() -> None:
    one = stream()
    await one.serve(frozenset({TopicIdPartition("t", 0)}))
    await one.stream.send(DeliverInput(acknowledgements=[delivery.Acknowledgement(id=5)]))
    (result,) = one.close().results
    assert (result.id, result.error_code) == (5, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_lost_results_name_each_acknowledgement() -> None:
    acks = [delivery.Acknowledgement(id=number) for number in (1, 2)]
    assert [result.id for result in lost_results(acks).results] == [1, 2]
