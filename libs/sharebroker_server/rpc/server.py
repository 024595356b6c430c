"""One gRPC server: services, reflection, health, limits, errors."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc import reflection
from sharebroker_server.rpc.call_metrics import CallCounts
from sharebroker_server.rpc.errors import CallLimits
from sharebroker_server.rpc.interceptor import ErrorInterceptor
from sharebroker_server.rpc.message_limits import MAX_READ, MAX_RESPONSE
from sharebroker_server.rpc.tls import Tls

_IDENTITY_ONLY = 1
"""The set of compression algorithms whose only element is `identity`: no compression."""

MAX_METADATA: Final = 18 * 1024
"""Bytes of the headers of a call, 32 for each and its name included (RFC 9113, section 6.5.2).

An access token has up to 16 KiB."""

SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_READ),
    ("grpc.max_send_message_length", MAX_RESPONSE),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 10_000),  # TLS and HTTP/2 settings; as the Kafka listener's
    ("grpc.max_concurrent_streams", 10_000),
    # Without these gRPC rejects calls at random from 8 KiB on.
    ("grpc.max_metadata_size", MAX_METADATA),
    ("grpc.absolute_max_metadata_size", MAX_METADATA + 2048),
    # Otherwise gRPC keeps a rejected call and its headers for up to a second.
    ("grpc.http.tarpit", 0),
    # Otherwise gRPC buffers megabytes of each stream that is not read. A message in reading has more.
    ("grpc.http2.bdp_probe", 0),
    # gRPC checks the size of a message before it decompresses it, so a small message could use gigabytes.
    ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
)

SHARING_OPTIONS = tuple((name, 1 if name == "grpc.so_reuseport" else value) for name, value in SERVER_OPTIONS)


@dataclass(frozen=True, slots=True)
class Service:
    """A servicer, its full proto name, and the generated function that adds it to a server."""

    name: str
    servicer: Any
    register: Callable[[Any, grpc.aio.Server], None]


class _Health(health.aio.HealthServicer):  # type: ignore[misc]  # gRPC has no types for it
    """Health checks. gRPC's servicer has no List, and a call of it would be logged with a stack trace."""

    async def List(self, _: object, __: object) -> health_pb2.HealthListResponse:
        """Returns the status of every service."""
        statuses = self._server_status.items()
        return health_pb2.HealthListResponse(
            statuses={name: health_pb2.HealthCheckResponse(status=status) for name, status in statuses}
        )


class GrpcServer:
    """Serves several services. Call `bind`, `add` for each service, then `start`.

    `access` checks the callers before the limits count their calls. With `shares` it can also serve an
    address that other processes serve: call `share`.
    """

    def __init__(
        self,
        limits: CallLimits | None = None,
        tls: Tls | None = None,
        access: Sequence[grpc.aio.ServerInterceptor] = (),
        *,
        shares: bool = False,
    ) -> None:
        self.counts = CallCounts()
        errors = ErrorInterceptor(limits, self.counts)
        options = SHARING_OPTIONS if shares else SERVER_OPTIONS
        self._server = grpc.aio.server(interceptors=(*access, errors), options=options)
        self._health = _Health()
        self._names: list[str] = []
        self._tls = tls

    def bind(self, address: str) -> int:
        """Binds the address and returns its port; port 0 selects a free one. Serves nothing before `start`.

        Raises KafkaError INVALID_CONFIG if the address is unavailable.
        """
        try:
            _check_address(address)
            return self._listen(address)
        except (OSError, RuntimeError) as failure:
            raise _unavailable(address, failure) from failure

    def share(self, address: str) -> None:
        """Listens at an address together with other processes; connections wait for `start`.

        Raises KafkaError INVALID_CONFIG if the address is unavailable.
        """
        try:
            self._listen(address)
        except RuntimeError as failure:
            raise _unavailable(address, failure) from failure

    def _listen(self, address: str) -> int:
        if self._tls is not None:
            return int(self._server.add_secure_port(address, self._tls.server_credentials()))
        return int(self._server.add_insecure_port(address))

    def add(self, service: Service) -> None:
        """Adds a service. Call it before `start`."""
        service.register(service.servicer, self._server)
        self._names.append(service.name)

    async def start(self) -> None:
        """Starts to serve; health checks report NOT_SERVING until `ready`."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable((*self._names, health.SERVICE_NAME), self._server)
        await self._report(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()

    async def ready(self) -> None:
        """Reports every service as serving."""
        await self._report(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        """Reports NOT_SERVING, waits `grace` seconds for calls in flight, then cancels them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    async def _report(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in ("", *self._names, health.SERVICE_NAME, reflection.SERVICE_NAME):
            await self._health.set(name, status)


def reserve(address: str) -> socket.socket:
    """Binds an address, without serving it, for processes of this user that `share` it.

    Port 0 selects a free one. Raises KafkaError INVALID_CONFIG if the address is unavailable.
    """
    family, place = _place(address)
    held = socket.socket(family)
    try:
        _check_address(address)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            held.setsockopt(socket.SOL_SOCKET, option, 1)
        held.bind(place)
    except OSError as failure:
        held.close()
        raise _unavailable(address, failure) from failure
    return held


def _check_address(address: str) -> None:
    """Raises OSError with the reason if the address is unavailable; gRPC only logs the reason."""
    family, place = _place(address)
    socket.create_server(place, family=family).close()


def _place(address: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return family, (host.strip("[]"), int(port))


def _unavailable(address: str, failure: OSError | RuntimeError) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Cannot listen on {address}: {_reason(failure)}.")


def _reason(failure: OSError | RuntimeError) -> str:
    if isinstance(failure, OSError) and failure.errno is not None and failure.errno > 0:
        return os.strerror(failure.errno)  # Python's own text repeats the address
    return str(failure)
