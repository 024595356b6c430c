"""One gRPC server: services, reflection, health, limits, errors."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc import reflection
from sharebroker_server.rpc.call_metrics import CallCounts
from sharebroker_server.rpc.errors import CallLimits
from sharebroker_server.rpc.interceptor import ErrorInterceptor
from sharebroker_server.rpc.server_options import server_options
from sharebroker_server.rpc.tls import Tls


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
        self._server = grpc.aio.server(interceptors=(*access, errors), options=server_options(shares=shares))
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
