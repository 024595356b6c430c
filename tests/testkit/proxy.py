"""A TCP proxy that injects faults."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class FaultProxy:
    """A proxy between a client and a server; an async context manager. It listens on `host`.

    `delay` holds back every chunk by this many seconds. `swallow_requests` and `swallow_replies` drop all
    data in one direction and keep the connection open (a command whose reply is dropped was executed).
    `upstream_port` applies to new connections. `accepted` counts connections.
    """

    def __init__(
        self, upstream_port: int, *, host: str = "127.0.0.1", upstream_host: str = "127.0.0.1"
    ) -> None:
        self.host = host
        self.port = 0
        self.delay = 0.0
        self.swallow_requests = False
        self.swallow_replies = False
        self.upstream_port = upstream_port
        self.accepted = 0
        self._upstream_host = upstream_host
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()

    @property
    def url(self) -> str:
        """The Redis URL of the proxy."""
        return f"redis://{self.host}:{self.port}"

    async def accept(self) -> None:
        """Listens, on the same port as before."""
        self._server = await asyncio.start_server(self._connected, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Stops listening and aborts all connections."""
        if self._server is not None:
            # asyncio loses an accepted connection if the server closes before its transport exists.
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            await asyncio.sleep(0)
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Aborts all connections; new ones are accepted."""
        cut = dict(self._connections)
        for connection, writer in cut.items():
            writer.transport.abort()
            connection.cancel()
        if cut:
            await asyncio.wait(cut)

    def black_hole(self) -> None:
        """Keeps connections open and drops all data."""
        self.swallow_requests = self.swallow_replies = True

    def heal(self) -> None:
        """Forwards all data again."""
        self.swallow_requests = self.swallow_replies = False
        self.delay = 0.0

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # accepted while the proxy stopped
            writer.transport.abort()
            return
        self.accepted += 1
        connection = asyncio.create_task(self._carry(reader, writer))
        self._connections[connection] = writer
        connection.add_done_callback(self._ended)

    def _ended(self, connection: asyncio.Task[None]) -> None:
        # Not in the task itself: a task cancelled before its first step runs no `finally`.
        self._connections.pop(connection).close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(
                self._upstream_host, self.upstream_port
            )
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(
                self._pipe(reader, upstream_writer, requests=True),
                self._pipe(upstream_reader, writer, requests=False),
            )
        except asyncio.CancelledError:
            upstream_writer.transport.abort()
            raise
        finally:
            upstream_writer.close()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, requests: bool
    ) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65536):
                    if self.delay:
                        await asyncio.sleep(self.delay)
                    if self.swallow_requests if requests else self.swallow_replies:
                        continue
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()
