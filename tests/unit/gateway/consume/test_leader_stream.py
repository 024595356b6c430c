"""A leader's stream by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.cluster.router import Peer
from sharebroker_server.gateway.consume.leader_stream import LeaderStream
from sharebroker_server.testkit.waiting import eventually
from tests.unit.gateway.fakes import member


class Stub:
    """Takes requests and answers nothing."""

    def __init__(self) -> None:
        self.taken: list[pb.DeliverRequest] = []
        self.reader: asyncio.Task[None] | None = None

    def Deliver(self, requests: AsyncIterator[pb.DeliverRequest]) -> None:
        self.reader = asyncio.create_task(self._read(requests))

    async def _read(self, requests: AsyncIterator[pb.DeliverRequest]) -> None:
        async for request in requests:
            self.taken.append(request)


async def test_when_its_leader_is_gone_whoever_waits_for_requests_ends() -> None:
    stub: Any = Stub()
    stream = LeaderStream(Peer(member(1, "a:1"), stub), pb.DeliverRequest.Open())
    stream.responses()
    await stream.serve(frozenset({TopicIdPartition("t", 0)}))
    await eventually(lambda: stub.taken)
    told = stream.close()
    await asyncio.wait_for(stub.reader, 5.0)
    assert [lost.topic_id for lost in told.lock_lost] == ["t"]
    assert len(stub.taken) == 1
