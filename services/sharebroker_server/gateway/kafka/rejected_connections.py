"""The number of connections of Kafka clients, and those that are not served.

These are beyond the limit, or their TLS handshake failed.
"""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import Iterator
from typing import Final, Generic, TypeVar
from weakref import WeakSet

from sharebroker_server.telemetry.rate_limited_log import RateLimitedLog

_RESERVED_FILES: Final = 256
"""File descriptors that are reserved for Redis, gRPC and logs."""


C = TypeVar("C")


class OpenConnections(Generic[C]):
    """The connections of a listener, of protocols of type C. `add`, then `begin`, then `end` each."""

    def __init__(self) -> None:
        self._begun: set[C] = set()
        # asyncio does not report a failed handshake; its transport has the only reference to the protocol.
        self._handshaking: WeakSet[C] = WeakSet()

    def __len__(self) -> int:
        return len(self._begun) + len(self._handshaking)

    def __iter__(self) -> Iterator[C]:
        return iter([*self._begun, *self._handshaking])

    def add(self, connection: C) -> None:
        """Adds a connection that the listener accepted."""
        self._handshaking.add(connection)

    def begin(self, connection: C) -> None:
        """The connection was made: after its TLS handshake, if any."""
        self._handshaking.discard(connection)
        self._begun.add(connection)

    def end(self, connection: C) -> None:
        """The connection ended."""
        self._begun.discard(connection)


class Rejecting(asyncio.Protocol):
    """Closes the connections of clients beyond the limit."""

    def __init__(self, log: RateLimitedLog, max_connections: int) -> None:
        self._log = log
        self._max_connections = max_connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closes the connection without a response."""
        self._log.log("kafka connection rejected", max_connections=self._max_connections)
        transport.close()


def logged_handshakes(log: RateLimitedLog) -> type[ssl.SSLObject]:
    """Returns the class that asyncio uses for each client's TLS.

    It logs why a handshake failed, asyncio does not.
    """

    class Handshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as failure:
                reason = (failure.reason or "it ended early").lower().replace("_", " ")
                log.log("kafka connection rejected", reason=f"TLS: {reason}")
                raise

    return Handshake


def available_files() -> int:
    """Returns the number of connections that the operating system permits, after raising the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # the soft limit applies
    return 1 << 30 if soft == resource.RLIM_INFINITY else max(soft - _RESERVED_FILES, soft // 2)
