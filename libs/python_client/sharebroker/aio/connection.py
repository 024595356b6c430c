"""One gRPC channel to a gateway, with every failure as a KafkaError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from sharebroker_protocol.address import Address
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_protocol.rpc_status import from_rpc_error

if TYPE_CHECKING:
    from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceAsyncStub
    from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceAsyncStub
    from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceAsyncStub

_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    # A gateway that stands still is given up about when others take its place.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # the one that counts; a minute by default
    ("grpc.http2.max_pings_without_data", 0),  # no limit: after two pings of an idle stream none would follow
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Two clients of one process must not share a socket: one's flow control would hold up the other.
    ("grpc.use_local_subchannel_pool", 1),
)

A = TypeVar("A")


class Connection:
    """A channel and the gateway's services on it. Made within the event loop that uses it."""

    def __init__(self, address: str) -> None:
        """Raises INVALID_CONFIG for what is no address (see sharebroker_protocol.address)."""
        self._channel = Address.parse(address).open(_OPTIONS)
        self.share: ShareServiceAsyncStub = ShareServiceStub(self._channel)
        self.produce: ProduceServiceAsyncStub = ProduceServiceStub(self._channel)
        self.admin: AdminServiceAsyncStub = AdminServiceStub(self._channel)

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        await self._channel.close()


async def call(method: grpc.aio.UnaryUnaryMultiCallable[Any, A], request: Any, timeout: float) -> A:
    """One unary call of at most `timeout` seconds. Raises KafkaError."""
    try:
        return await method(request, timeout=timeout)
    except grpc.aio.AioRpcError as failure:
        raise from_rpc_error(failure) from None
