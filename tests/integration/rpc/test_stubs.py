"""Calls to a servicer in another process."""

from __future__ import annotations

from typing import Any

import grpc

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as pb_grpc
from sharebroker_server.rpc.stubs import NOT_SENT, RemoteStub
from tests.integration.rpc.harness import caught, echo


async def test_stream_carries_messages_both_ways(stub: Any) -> None:
    assert await echo(stub, 1, 2, 3) == [1, 2, 3]


async def test_an_unreachable_server_is_a_retriable_error() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:9") as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        error = await caught(stub.Produce(pb.ProduceRequest(), timeout=5))
    assert error.retriable
    assert NOT_SENT in error.metadata
    assert "127.0.0.1:9" in error.message
