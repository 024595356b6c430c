"""The requests of a method: of clients or of this system, with the limits of their messages."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_server.rpc.message_limits import message_limits
from sharebroker_server.rpc.requests import ListenerRequests, MethodRequests

ACQUIRE = "/sharebroker.gateway.v1.ShareService/Acquire"
REQUEST = pb.AcquireRequest(group_id="g")
DATA = REQUEST.SerializeToString()


class Context:
    """The context of a call with one request."""

    async def read(self) -> bytes:
        return DATA

    def peer(self) -> str:
        return "ipv4:10.0.0.7:5000"


CONTEXT: Any = cast("Any", Context())


def requests_of(method: str) -> MethodRequests:
    return ListenerRequests().of(method, pb.AcquireRequest.FromString)


async def test_the_request_of_a_client_is_read_from_its_call() -> None:
    requests = requests_of(ACQUIRE)
    assert requests.of_clients
    assert await requests.data(None, CONTEXT) == DATA
    assert await requests.only_message(CONTEXT) == REQUEST


async def test_an_internal_request_was_read_by_grpc() -> None:
    requests = requests_of("/sharebroker.cluster.v1.ClusterService/CreateTopics")
    assert not requests.of_clients
    assert await requests.data(b"read", CONTEXT) == b"read"


async def test_each_message_of_a_stream_is_decoded() -> None:
    async def stream() -> Any:
        yield DATA
        yield DATA

    assert [message async for message in requests_of(ACQUIRE).messages(stream(), CONTEXT)] == [
        REQUEST,
        REQUEST,
    ]


async def test_a_request_has_the_limits_of_its_method() -> None:
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        await requests_of(ACQUIRE).message(bytes(message_limits(ACQUIRE).max_bytes + 1))
