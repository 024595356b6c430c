"""The connections to one address, one after the other, with pauses between failed attempts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.aio import doubling
from sharebroker_server.kafka_client.connection import BrokerConnection, ConnectionSettings, lost

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds between two attempts (Kafka: reconnect.backoff.ms and reconnect.backoff.max.ms)."""

JITTER: Final = 0.2
"""The part by which a pause is changed at random, so that clients do not return together."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerLink:
    """Keeps one connection to an address. `jitter` returns a number from -1 to 1."""

    def __init__(
        self,
        address: BrokerAddress,
        settings: ConnectionSettings,
        jitter: Callable[[], float] = lambda: random.uniform(-1, 1),
    ) -> None:
        self.address = address
        self._settings = settings
        self._jitter = jitter
        self._connection: BrokerConnection | None = None
        self._opening: asyncio.Task[BrokerConnection] | None = None
        self._pauses: Iterator[float] = doubling(FIRST_PAUSE, LONGEST_PAUSE)
        self._not_before = 0.0
        self._error: KafkaError | None = None
        self._closed = False

    async def connection(self) -> BrokerConnection:
        """Returns the connection; opens one if there is none, or if its authentication ends soon.

        Raises:
            KafkaError: as `BrokerConnection.open`. During the pause after a failure it is raised at once, and
                `retry_after` is the rest of the pause. NETWORK_EXCEPTION after `close`.
        """
        if (usable := self._usable()) is not None:
            return usable
        if self._opening is None:
            self._check_pause()
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        # An attempt goes on without its caller: only its end shows that the broker cannot be reached.
        await asyncio.wait([opening])
        if opening.cancelled():
            raise lost("The client was closed.")
        return opening.result()

    def close(self) -> None:
        """Ends the connection; there is no other one afterwards."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()
        if self._opening is not None:
            self._opening.cancel()

    def _opened(self, task: asyncio.Task[BrokerConnection]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # callers that wait raise it; there may be none

    def _usable(self) -> BrokerConnection | None:
        connection = self._connection
        if connection is None or connection.closed:
            return None
        if connection.renew_at is not None and connection.renew_at <= asyncio.get_running_loop().time():
            return None
        return connection

    async def _open(self) -> BrokerConnection:
        try:
            connection = await BrokerConnection.open(self.address.host, self.address.port, self._settings)
        except KafkaError as error:
            self._failed(error)
            raise
        if self._closed:
            connection.close()
            raise lost("The client was closed.")
        if self._connection is not None:
            self._connection.retire()
        self._connection = connection
        self._pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE)
        # A broker may accept connections and end each of them at once.
        self._error = lost(f"{self.address} ended the connection soon after it was opened.")
        self._not_before = asyncio.get_running_loop().time() + FIRST_PAUSE
        return connection

    def _check_pause(self) -> None:
        if self._closed:
            raise lost("The client was closed.")
        pause = self._not_before - asyncio.get_running_loop().time()
        if pause > 0 and self._error is not None:
            raise KafkaError(self._error.code, self._error.message, retry_after=pause)

    def _failed(self, error: KafkaError) -> None:
        self._error = error
        pause = next(self._pauses) * (1 + JITTER * self._jitter())
        self._not_before = asyncio.get_running_loop().time() + pause
