"""A small HTTP server, and the metrics and health pages of a broker.

It serves GET only, one request per connection, to a bounded number of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

MAX_CONNECTIONS: Final = 128
CONNECTION_TIMEOUT: Final = 10.0
"""Seconds that a connection has to send its request and to read the response."""

_MAX_REQUEST: Final = 16 * 1024
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Reply(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = _TEXT


Page = Callable[[], Awaitable[Reply]]


class HttpServer:
    """Serves `pages` by their path, to at most `MAX_CONNECTIONS` connections.

    A further connection closes the oldest one, so that slow clients do not block probes.
    """

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # in order of arrival

    async def start(self, host: str, port: int) -> int:
        """Starts to listen and returns the port; 0 selects a free one. Raises KafkaError INVALID_CONFIG."""
        try:
            self._server = await asyncio.start_server(
                self._connected, host.strip("[]"), port, limit=_MAX_REQUEST
            )
        except OSError as failure:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Cannot listen on {host}:{port}: {failure.strerror or failure}."
            ) from failure
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stops to listen and closes all connections."""
        if self._server is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= MAX_CONNECTIONS:
            self._end(next(iter(self._serving)))
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving[task] = writer
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        if (writer := self._serving.pop(task, None)) is not None:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECTION_TIMEOUT):
                reply, head_only = await self._reply(reader)
                writer.write(_head(reply))
                if not head_only:
                    writer.write(reply.body)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):  # TimeoutError is an OSError
            pass

    async def _reply(self, reader: asyncio.StreamReader) -> tuple[Reply, bool]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.partition(b"\r\n")[0].decode("ascii").split(" ")
        except (asyncio.LimitOverrunError, ValueError):
            return Reply(400, b"invalid request\n"), False
        if method not in ("GET", "HEAD"):
            return Reply(405, b"GET only\n"), False
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return Reply(404, f"not found; pages: {' '.join(sorted(self._pages))}\n".encode()), False
        try:
            return await page(), method == "HEAD"
        except Exception:  # a failure of one page must not affect the others
            _log.exception("page failed", page=target)
            return Reply(500, b"the page failed; see the log\n"), False


def _head(reply: Reply) -> bytes:
    return (
        f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode()


Check = Callable[[], Awaitable[str]]
"""Returns why the broker is not ready, or ""; must be faster than the time-out of probes."""

Missing = Callable[[], list[str]]
"""Returns the resources that this broker should own and does not."""

INCOMPLETE_GRACE: Final = 30.0
"""Seconds that a broker stays ready with missing resources, after it had all of them.

Without it, no broker would be ready while a dead broker still holds leases."""


class Health:
    """Health of a broker: the process updates it, HTTP requests read it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.starting = "the broker is starting"
        self._stopping = False
        self.checks: list[Check] = []
        self.missing: list[Missing] = []
        self._clock = clock
        self._complete_at: float | None = None

    def started(self) -> None:
        """Records that the broker serves."""
        self.starting = ""

    def stop(self) -> None:
        """Records that the broker is stopping: clients should connect elsewhere."""
        self._stopping = True

    async def is_started(self) -> str:
        """Returns why the broker does not serve yet, or ""."""
        return self.starting

    async def is_ready(self) -> str:
        """Returns why clients should not connect to this broker, or ""."""
        if self.starting:
            return self.starting
        if self._stopping:
            return "the broker is stopping"
        for check in self.checks:
            if reason := await check():
                return reason
        return self._incomplete()

    async def is_live(self) -> str:
        """Returns "": a response shows that the event loop runs."""
        return ""

    def _incomplete(self) -> str:
        missing = [name for list_missing in self.missing for name in list_missing()]
        now = self._clock()
        if not missing:
            self._complete_at = now
            return ""
        if self._complete_at is not None and now - self._complete_at < INCOMPLETE_GRACE:
            return ""
        return f"{len(missing)} resources of this broker are not available yet: {', '.join(missing[:3])}"


def health_page(check: Check) -> Callable[[], Awaitable[Reply]]:
    """Returns a page with 200 and `ok`, or 503 and the reason."""

    async def reply() -> Reply:
        reason = await check()
        return Reply(503, f"{reason}\n".encode()) if reason else Reply(200, b"ok\n")

    return reply
