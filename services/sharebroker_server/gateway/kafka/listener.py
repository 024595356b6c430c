"""Listens for Kafka clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.kafka.buffers import MemoryBudget, UnreadResponses
from sharebroker_server.gateway.kafka.call import KafkaListener
from sharebroker_server.gateway.kafka.connection import ConnectionLimits, KafkaConnection
from sharebroker_server.gateway.kafka.rejected_connections import (
    OpenConnections,
    Rejecting,
    connection_limit,
    logged_handshakes,
)
from sharebroker_server.gateway.kafka.telemetry import log_of_clients
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping
from sharebroker_server.telemetry.metrics import Family, gauge

_BACKLOG: Final = 1024
_CHECKS: Final = 10
"""Checks of connections in the shortest time after which a client may exceed a limit."""

_MIN_INTERVAL: Final = 0.1
"""Seconds between two checks, at least; and between two calls of `MemoryBudget.relieve`."""

_HANDSHAKE_TIMEOUT: Final = 10.0
_SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds for the handshake and for the shutdown of TLS."""


class KafkaServer:
    """The listening socket: `bind`, `open`, `start`, `stop`. `address` is where clients reach it.

    `certificates` are the principals of client certificates, if `tls` requires them.
    """

    def __init__(
        self, tls: ssl.SSLContext | None = None, certificates: PrincipalMapping | None = None
    ) -> None:
        self.address = ""
        self._tls = tls
        self._certificates = certificates
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connect: Callable[[], asyncio.Protocol] | None = None
        self._connections: OpenConnections[KafkaConnection] = OpenConnections()
        self._log = log_of_clients()
        self._checking: asyncio.Task[None] | None = None

    def bind(self, host: str, port: int) -> int:
        """Binds the port before its address is announced. Raises KafkaError INVALID_CONFIG."""
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                host.strip("[]"), port, type=socket.SOCK_STREAM
            )[0]
            self._socket = socket.socket(family, kind, proto)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
        except OSError as error:
            self.close()
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Kafka clients cannot be served on {host}:{port}: {error.strerror}. "
                "Use another --kafka HOST:PORT, or --kafka none.",
            ) from error
        return int(self._socket.getsockname()[1])

    def open(self, listener: KafkaListener, config: BrokerConfig) -> None:
        """Sets the state that connections share, and their limits."""
        max_connections = connection_limit(config.max_connections)
        self._limits = limits = ConnectionLimits(
            config.socket_request_max_bytes,
            MemoryBudget(config.queued_max_request_bytes),
            UnreadResponses(config.queued_max_request_bytes),
            config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else None,
            certificates=self._certificates,
        )
        rejecting, connections = Rejecting(listener.log, max_connections), self._connections

        def connect() -> asyncio.Protocol:
            if len(connections) >= max_connections:
                return rejecting
            connection = KafkaConnection(listener, limits, connections.begin, connections.end)
            connections.add(connection)
            return connection

        self._connect = connect
        self._log = listener.log

    async def start(self) -> None:
        """Accepts clients."""
        assert self._connect is not None, "open it first"
        assert self._socket is not None, "bind it first"
        if self._tls is not None:
            self._tls.sslobject_class = logged_handshakes(self._log)
        self._server = await asyncio.get_running_loop().create_server(
            self._connect,
            sock=self._socket,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=None if self._tls is None else _SHUTDOWN_TIMEOUT,
        )
        interval = max(self._limits.quiet_period / _CHECKS, _MIN_INTERVAL)
        self._checking = asyncio.create_task(self._check_regularly(interval), name="Kafka connections")

    def close(self) -> None:
        """Closes the socket and hangs up all connections."""
        if self._socket is not None:
            self._socket.close()
        for connection in self._connections:
            connection.hang_up()

    async def stop(self, grace: float, *, hang_up: bool = True) -> None:
        """Accepts no further clients and requests; requests in flight have `grace` seconds to finish.

        Without `hang_up` clients stay connected until `close`: a client that is disconnected requests the
        leaders at once, and would receive the old ones until the leases of this broker are handed over.
        """
        if self._server is None:
            return
        self._server.close()
        if self._checking is not None:
            self._checking.cancel()
        for connection in self._connections:
            connection.close(hang_up=hang_up)
        tasks = {connection.task for connection in self._connections if connection.task is not None}
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=grace)
            for task in unfinished:
                task.cancel()

    def families(self) -> Iterable[Family]:
        """Yields the metrics of connections (see Collector)."""
        yield gauge(
            "sharebroker_kafka_connections", "Connections of Kafka clients.", [((), len(self._connections))]
        )

    def check(self, now: float) -> None:
        """Disconnects stalled and idle clients; `now` in seconds of the loop's clock."""
        for connection in self._connections:
            connection.check(now)
        self._log.log_dropped()

    async def _check_regularly(self, interval: float) -> None:
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        while True:
            await asyncio.sleep(_MIN_INTERVAL)
            self._limits.requests.relieve()
            if loop.time() - checked_at >= interval:
                checked_at = loop.time()
                self.check(checked_at)
