"""Streams between simulated processes: two ordered pipes that break together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from tests.testkit.simulator.faults import Faults
from tests.testkit.simulator.loop import SimulatedLoop


class _End:
    """The end of a pipe."""


class Pipe:
    """One direction. `next` raises the error of a broken pipe, and StopAsyncIteration at its end."""

    def __init__(self, loop: SimulatedLoop, faults: Faults) -> None:
        self._loop = loop
        self._faults = faults
        self._last = 0.0
        self._arrived: deque[bytes | type[_End] | BaseException] = deque()
        self._reader: asyncio.Future[None] | None = None

    def push(self, item: bytes | type[_End] | BaseException) -> None:
        """Sends an item after the previous ones."""
        self._last = max(self._last + 1e-9, self._loop.now + self._faults.delay())
        self._loop.call_outside(self._last, self.put, item)

    def put(self, item: bytes | type[_End] | BaseException) -> None:
        """Delivers an item to the reader now."""
        self._arrived.append(item)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def next(self) -> bytes:
        """Returns the next bytes."""
        while not self._arrived:
            self._reader = self._loop.create_future()
            await self._reader
        item = self._arrived[0]
        if isinstance(item, bytes):
            return self._arrived.popleft()  # type: ignore[return-value]  # it is the item just looked at
        if isinstance(item, BaseException):
            raise item
        raise StopAsyncIteration


class Stream:
    """One call: `requests` to the server, `responses` to the caller."""

    def __init__(self, loop: SimulatedLoop, faults: Faults, caller: str, address: str) -> None:
        self.caller = caller
        self.address = address
        self.requests = Pipe(loop, faults)
        self.responses = Pipe(loop, faults)
        self.server: asyncio.Task[None] | None = None
        self.broken = False
        self._loop = loop
        self._faults = faults

    def send(self, pipe: Pipe, item: bytes | type[_End] | BaseException) -> None:
        """Sends an item; a lost item breaks the stream eventually."""
        if self.broken:
            return
        if self._faults.copies(self.caller, self.address):
            pipe.push(item)
        else:
            self.break_in(self._faults.silence())

    def break_in(self, delay: float) -> None:
        """Breaks the connection; each side notices at its own time."""
        self.broken = True
        failure = error(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer")
        self._later(delay, self.responses.put, failure)
        self._later(delay * self._faults.delay() + self._faults.delay(), self.end_server)

    def cancel(self) -> None:
        """Cancels the call by the caller."""
        if not self.broken:
            self.broken = True
            self._later(self._faults.delay(), self.end_server)

    def end_server(self) -> None:
        """Cancels the call at the server."""
        if self.server is not None:
            self.server.cancel()

    def _later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_outside(self._loop.now + delay, callback, *args)


class StreamCall:
    """The caller's side: the part of grpc.aio.StreamStreamCall that callers use."""

    def __init__(
        self, stream: Stream, deserialize: Callable[[bytes], Any], sending: asyncio.Task[None]
    ) -> None:
        self._stream = stream
        self._deserialize = deserialize
        self._sending = sending

    def __aiter__(self) -> StreamCall:
        return self

    async def __anext__(self) -> Any:
        return self._deserialize(await self._stream.responses.next())

    def cancel(self) -> bool:
        """Cancels the call."""
        self._sending.cancel()
        self._stream.cancel()
        return True


async def send_all(stream: Stream, requests: AsyncIterator[Any], serialize: Callable[[Any], bytes]) -> None:
    """Sends the caller's requests, then the end."""
    async for request in requests:
        stream.send(stream.requests, serialize(request))
    stream.send(stream.requests, _End)


async def receive(stream: Stream, deserialize: Callable[[bytes], Any]) -> AsyncIterator[Any]:
    """Yields the requests for the server."""
    while True:
        try:
            data = await stream.requests.next()
        except StopAsyncIteration:
            return
        yield deserialize(data)


async def respond_all(
    stream: Stream, responses: AsyncIterator[Any], serialize: Callable[[Any], bytes]
) -> None:
    """Sends the server's responses, then the end."""
    async for response in responses:
        stream.send(stream.responses, serialize(response))
    stream.send(stream.responses, _End)


def error(code: grpc.StatusCode, details: str, trailing: Any = ()) -> grpc.aio.AioRpcError:
    """Returns the error of a failed call."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details)
