"""Listens for Kafka clients."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.kafka.connection.connection import Connection, Limits
from sharebroker_server.gateway.kafka.connection.memory_budget import Budget, Untaken
from sharebroker_server.gateway.kafka.connection.rate_limited_log import Complaints
from sharebroker_server.gateway.kafka.dispatch.call import Door
from sharebroker_server.telemetry.metrics import Family, gauge

_BACKLOG: Final = 1024
_LOOKS: Final = 10
"""How often connections are looked at in the time in which one may keep us waiting for too long."""

_OFTEN: Final = 0.1
"""Seconds between two looks, at least."""

_HANDSHAKE: Final = 10.0
_FAREWELL: Final = 1.0
"""Seconds that clients get to say who they are, and to say good-bye."""

_SPARE_FILES: Final = 256
"""Files that are kept for Redis, gRPC and logs."""


class KafkaServer:
    """`bind`, `open`, `start`; `stop` finishes what is under way. `address` is where clients reach it."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.address = ""
        self._tls = tls
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connect: Callable[[], asyncio.Protocol] | None = None
        self._connections: set[Connection] = set()
        self._complaints = Complaints()
        self._watching: asyncio.Task[None] | None = None

    def bind(self, host: str, port: int) -> int:
        """Take the port, so that others can be told of it. Raises KafkaError INVALID_CONFIG."""
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
                "Take another --kafka HOST:PORT, or --kafka none.",
            ) from error
        return int(self._socket.getsockname()[1])

    def open(self, door: Door, config: BrokerConfig) -> None:
        """Say what clients are to find."""
        most = min(config.max_connections, _room_for_files())
        self._limits = limits = Limits(
            config.socket_request_max_bytes,
            Budget(config.queued_max_request_bytes),
            Untaken(config.queued_max_request_bytes),
            config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else None,
            tls=self._tls is not None,
        )
        refusing = _Refusing(door.complaints, most)

        def connect() -> asyncio.Protocol:
            if len(self._connections) >= most:
                return refusing
            connection = Connection(door, limits, self._connections.discard)
            self._connections.add(connection)
            return connection

        self._connect = connect
        self._complaints = door.complaints

    async def start(self) -> None:
        """Let clients in."""
        assert self._connect is not None, "open it first"
        assert self._socket is not None, "bind it first"
        if self._tls is not None:
            self._tls.sslobject_class = _handshakes(self._complaints)
        self._server = await asyncio.get_running_loop().create_server(
            self._connect,
            sock=self._socket,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE,
            ssl_shutdown_timeout=None if self._tls is None else _FAREWELL,
        )
        interval = max(self._limits.calm / _LOOKS, _OFTEN)
        self._watching = asyncio.create_task(self._watch(interval), name="Kafka connections")

    def close(self) -> None:
        """Give the port back, and hang up."""
        if self._socket is not None:
            self._socket.close()
        for connection in list(self._connections):
            connection.hang_up()

    async def stop(self, grace: float, *, hang_up: bool = True) -> None:
        """Take no more clients and requests, let those under way be answered for `grace` seconds, close.

        Without `hang_up` clients stay connected until `close`: who is cut off asks for the leaders at once,
        and finds the old ones until our leases are handed over.
        """
        if self._server is None:
            return
        self._server.close()
        if self._watching is not None:
            self._watching.cancel()
        for connection in list(self._connections):
            connection.close(hang_up=hang_up)
        tasks = {connection.task for connection in self._connections if connection.task is not None}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()

    def families(self) -> Iterable[Family]:
        """See Collector."""
        yield gauge(
            "sharebroker_kafka_connections",
            "Connections of Kafka clients.",
            [((), len(self._connections))],
        )

    def check(self, now: float) -> None:
        """Close connections that keep us waiting; `now` in seconds of the loop's clock."""
        for connection in list(self._connections):
            connection.check(now)
        self._complaints.tell_left_out()

    async def _watch(self, interval: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(interval)
            self.check(loop.time())


class _Refusing(asyncio.Protocol):
    """For clients too many: closed at once."""

    def __init__(self, complaints: Complaints, most: int) -> None:
        self._complaints = complaints
        self._most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Says nothing to the client."""
        self._complaints.tell("refused a connection", most=self._most)
        transport.close()


def _handshakes(complaints: Complaints) -> type[ssl.SSLObject]:
    """What asyncio makes for each client; nobody else would hear why a handshake failed."""

    class Handshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as failure:
                reason = (failure.reason or "it ended early").lower().replace("_", " ")
                complaints.tell("refused a connection", reason=f"TLS: {reason}")
                raise

    return Handshake


def _room_for_files() -> int:
    """How many connections the operating system allows, once we have asked for all it gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return 1 << 30 if soft == resource.RLIM_INFINITY else max(soft - _SPARE_FILES, soft // 2)
