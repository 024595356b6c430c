"""The number of connections of Kafka clients, and those that are not served.

These are beyond the limit, or their TLS handshake failed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import WeakSet

from sharebroker_server.open_files import connections_permitted
from sharebroker_server.telemetry.rate_limited_log import RateLimitedLog

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


def connection_limit(max_connections: int) -> int:
    """Returns the lower of `max.connections` and what the limit on open files permits."""
    return min(max_connections, connections_permitted())
