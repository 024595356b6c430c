"""A TCP proxy that breaks connections on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Self


class FaultProxy:
    """Stands between a client and a server on 127.0.0.1; an async context manager.

    `delay` holds every chunk back for so many seconds; `swallow_requests` and `swallow_replies` let nothing
    through in one direction while the connection stays up (a command whose reply is swallowed was done).
    `upstream_port` is where connections made from now on lead.
    """

    def __init__(self, upstream_port: int) -> None:
        self.port = 0
        self.delay = 0.0
        self.swallow_requests = False
        self.swallow_replies = False
        self.upstream_port = upstream_port
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

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
        return f"redis://127.0.0.1:{self.port}"

    async def accept(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Stop listening and cut what is connected."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Break every connection now; new ones are taken."""
        for writer in self._writers:
            writer.transport.abort()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def black_hole(self) -> None:
        """Keep connections up and let nothing through."""
        self.swallow_requests = self.swallow_replies = True

    def heal(self) -> None:
        """Let everything through again."""
        self.swallow_requests = self.swallow_replies = False
        self.delay = 0.0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        except OSError:
            writer.transport.abort()
            return
        self._start(self._pipe(reader, upstream_writer, requests=True))
        self._start(self._pipe(upstream_reader, writer, requests=False))

    def _start(self, pipe: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(pipe)
        self._pipes.add(task)
        task.add_done_callback(self._pipes.discard)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, requests: bool
    ) -> None:
        self._writers.add(writer)
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
            self._writers.discard(writer)
            writer.close()
