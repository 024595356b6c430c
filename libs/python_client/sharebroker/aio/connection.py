"""A gRPC channel to a gateway; every failure is raised as KafkaError."""

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
    # Detect a frozen gateway about as fast as the cluster does.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # the effective limit; 60 s by default
    ("grpc.http2.max_pings_without_data", 0),  # no limit; the default is two pings
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Clients of one process must not share a socket, since they would share its flow control.
    ("grpc.use_local_subchannel_pool", 1),
)

A = TypeVar("A")


class Connection:
    """A channel with the stubs of the gateway's services. Must be created in the event loop that uses it."""

    def __init__(self, address: str) -> None:
        """Raises KafkaError INVALID_CONFIG for an invalid address (see sharebroker_protocol.address)."""
        self._channel = Address.parse(address).open(_OPTIONS)
        self.share: ShareServiceAsyncStub = ShareServiceStub(self._channel)
        self.produce: ProduceServiceAsyncStub = ProduceServiceStub(self._channel)
        self.admin: AdminServiceAsyncStub = AdminServiceStub(self._channel)

    async def close(self) -> None:
        """Closes the channel and cancels the calls in flight."""
        await self._channel.close()


async def call(method: grpc.aio.UnaryUnaryMultiCallable[Any, A], request: Any, timeout: float) -> A:
    """Makes a unary call of at most `timeout` seconds. Raises KafkaError."""
    try:
        return await method(request, timeout=timeout)
    except grpc.aio.AioRpcError as failure:
        raise from_rpc_error(failure) from None
