"""The connection to a gateway: its channel, its streams, and warnings about failed attempts.

Every failure is raised as KafkaError.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

import grpc
from typing_extensions import override

from sharebroker.client_errors import DEFAULT_CLIENT_ID, ConnectionLostError
from sharebroker_protocol import clock
from sharebroker_protocol.address import CONNECT_TIMEOUT, Address
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import (
    admin_pb2_grpc,
    dead_letters_pb2_grpc,
    plan_pb2_grpc,
    produce_pb2_grpc,
    share_pb2_grpc,
)
from sharebroker_protocol.rpc_status import from_rpc_error

if TYPE_CHECKING:
    from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceAsyncStub as AdminStub
    from sharebroker_protocol.gateway.v1.dead_letters_pb2_grpc import DeadLetterServiceAsyncStub
    from sharebroker_protocol.gateway.v1.plan_pb2_grpc import PlanServiceAsyncStub as PlanStub
    from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceAsyncStub as ProduceStub
    from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceAsyncStub as ShareStub

_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    # Detect a frozen gateway about as fast as the cluster does.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # the effective limit; 60 s by default
    ("grpc.http2.max_pings_without_data", 0),  # no limit; the default is two pings
    CONNECT_TIMEOUT,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Clients of one process must not share a socket, since they would share its flow control.
    ("grpc.use_local_subchannel_pool", 1),
)

A = TypeVar("A")
Metadata = tuple[tuple[str, str], ...]


class AsyncClient:
    """A client that is closed at the end of an `async with` block."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client."""
        raise NotImplementedError


class Connection:
    """A channel with the stubs of the gateway's services. Must be created in the event loop that uses it."""

    def __init__(self, address: str | Address, client_id: str = DEFAULT_CLIENT_ID) -> None:
        """Raises KafkaError INVALID_CONFIG for an invalid address (see sharebroker_protocol.address)."""
        parsed = Address.parse(address) if isinstance(address, str) else address
        self._channel = parsed.open(_OPTIONS)
        self.metadata: Metadata = (("client-id", client_id),) if client_id else ()
        """The metadata of each call; quotas apply to the client id."""
        self.share: ShareStub = share_pb2_grpc.ShareServiceStub(self._channel)
        self.produce: ProduceStub = produce_pb2_grpc.ProduceServiceStub(self._channel)
        self.admin: AdminStub = admin_pb2_grpc.AdminServiceStub(self._channel)
        self.plans: PlanStub = plan_pb2_grpc.PlanServiceStub(self._channel)
        self.dead_letters: DeadLetterServiceAsyncStub = dead_letters_pb2_grpc.DeadLetterServiceStub(
            self._channel
        )

    async def call(self, method: grpc.aio.UnaryUnaryMultiCallable[Any, A], request: Any, timeout: float) -> A:
        """Makes a unary call of at most `timeout` seconds, and connects again if an attempt timed out.

        A refused connection is not retried. Raises KafkaError.
        """
        deadline = clock.now() + timeout
        pause, unreachable = _FIRST_PAUSE, None
        while True:
            try:
                return await method(request, timeout=max(0.0, deadline - clock.now()), metadata=self.metadata)
            except grpc.aio.AioRpcError as failure:
                error = from_rpc_error(failure)
                if not _connecting_timed_out(failure):
                    unsent = self._channel.get_state() is not grpc.ChannelConnectivity.READY
                    if unreachable and unsent and error.code is ErrorCode.REQUEST_TIMED_OUT:
                        error = unreachable
                    raise error from None
                unreachable = error
            if clock.now() + pause >= deadline:
                raise unreachable
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def close(self) -> None:
        """Closes the channel and cancels the calls in flight."""
        await self._channel.close()


class RequestClient(AsyncClient):
    """A client that makes unary calls."""

    def __init__(self, address: str | Address, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds.

        A call connects again within this time if an attempt times out, but not if it is refused.
        """
        self._connection = Connection(address)
        self._timeout = request_timeout

    @override
    async def close(self) -> None:
        """Closes the connection."""
        await self._connection.close()

    async def _call(self, method: grpc.aio.UnaryUnaryMultiCallable[Any, A], request: Any) -> A:
        return await self._connection.call(method, request, self._timeout)


_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
"""Seconds between attempts to connect."""
_TIMED_OUT: Final = re.compile(
    "failed to connect to all addresses.*(timed out|shutdown|endpoint closing)", re.IGNORECASE | re.DOTALL
)
"""gRPC's texts for an attempt without a TCP connection, a TLS handshake or the server's settings in time."""


def _connecting_timed_out(failure: grpc.aio.AioRpcError) -> bool:
    """Whether the call was never sent, because an attempt to connect ended at its time limit."""
    unavailable = failure.code() is grpc.StatusCode.UNAVAILABLE
    return unavailable and _TIMED_OUT.match(failure.details() or "") is not None


async def call(
    method: grpc.aio.UnaryUnaryMultiCallable[Any, A], request: Any, timeout: float, metadata: Metadata = ()
) -> A:
    """Makes a unary call of at most `timeout` seconds. Raises KafkaError."""
    try:
        return await method(request, timeout=timeout, metadata=metadata)
    except grpc.aio.AioRpcError as failure:
        raise from_rpc_error(failure) from None


WARN_AFTER: Final = 5.0
"""Seconds; longer than a restart of the server takes."""
WARN_INTERVAL: Final = 60.0
"""Seconds."""
_log = logging.getLogger(__name__)


class ConnectWarnings:
    """Decides when consecutive failed attempts are logged.

    The first warning is logged `WARN_AFTER` seconds after the first failure, then one every `WARN_INTERVAL`.
    """

    def __init__(self, client: str, what: str = "connect") -> None:
        """`client` names the kind of client in the warnings, `what` the failed action."""
        self._client = client
        self._what = what
        self._due: float | None = None

    def succeeded(self) -> None:
        """Ends the sequence of failures."""
        self._due = None

    def failed(self, error: KafkaError, now: float) -> None:
        """Counts a failure at `now` (seconds, monotonic) and logs it if a warning is due."""
        if self._due is None:
            self._due = now + WARN_AFTER
        elif now >= self._due:
            self._due = now + WARN_INTERVAL
            _log.warning("%s cannot %s and retries: %s", self._client, self._what, error)


class RunningStream:
    """One bidirectional stream: `writing` sends messages to `call` while `run` reads responses.

    If `writing` fails, the call is cancelled, so that the reader ends as well. `run` raises a KafkaError of
    `writing`.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[Any, Any], writing: Coroutine[Any, Any, None]) -> None:
        self._call = call
        self._failure: KafkaError | None = None
        self._cause: BaseException | None = None
        self._writer = asyncio.create_task(writing)
        self._writer.add_done_callback(self._written)

    async def run(self, handle: Callable[[Any], None]) -> NoReturn:
        """Passes each response to `handle`; raises the KafkaError that ended the stream."""
        try:
            async for response in self._call:
                handle(response)
        except grpc.aio.AioRpcError as failure:
            raise from_rpc_error(failure) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._failure is None or (task is not None and task.cancelling()):
                raise
            if self._cause is not None:
                _log.error("stream writer failed", exc_info=self._cause)
            raise self._failure from None
        finally:
            self._call.cancel()
            await end([self._writer])
        raise ConnectionLostError("the server ended the stream")

    def abort(self, error: KafkaError) -> None:
        """Ends the stream; `run` raises `error`."""
        self._failure = self._failure or error
        self._call.cancel()

    def _written(self, writer: asyncio.Task[None]) -> None:
        if writer.cancelled():
            self._call.cancel()
        elif isinstance(cause := writer.exception(), KafkaError):
            self.abort(cause)
        elif cause is not None and self._failure is None:
            self._cause = cause
            self.abort(ConnectionLostError("the client failed to send"))
