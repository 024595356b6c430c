"""The blocking client of dead letters."""

from __future__ import annotations

from typing_extensions import override

from sharebroker.aio.dead_letters import DeadLetters as AsyncDeadLetters
from sharebroker.blocking.loop_thread import BlockingClient, blocking
from sharebroker_protocol.address import Address


class DeadLetters(BlockingClient[AsyncDeadLetters]):
    """Reads, redrives and discards dead letters. `sharebroker.aio.DeadLetters` describes the methods."""

    def __init__(self, address: str | Address, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds."""
        super().__init__(lambda: AsyncDeadLetters(address, request_timeout))

    @override
    def close(self) -> None:
        """Closes the connection. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._thread.call(self._client.close())
            self._thread.close()

    list_letters = blocking(AsyncDeadLetters.list_letters)
    summarize = blocking(AsyncDeadLetters.summarize)
    get = blocking(AsyncDeadLetters.get)
    redrive = blocking(AsyncDeadLetters.redrive)
    discard = blocking(AsyncDeadLetters.discard)
