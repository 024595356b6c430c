"""The connection to a gateway: its channel, the task that writes to a stream, and warnings about failed
attempts.

Every failure is raised as KafkaError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from sharebroker.client_errors import ConnectionLostError
from sharebroker_protocol.address import Address
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_protocol.rpc_status import from_rpc_error

if TYPE_CHECKING:
    from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceAsyncStub
    from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceAsyncStub
    from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceAsyncStub


_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    # Detect a frozen gateway about as fast as the cluster does.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # the effective limit; 60 s by default
    ("grpc.http2.max_pings_without_data", 0),  # no limit; the default is two pings
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Clients of one process must not share a socket, since they would share its flow control.
    ("grpc.use_local_subchannel_pool", 1),
)

A = TypeVar("A")


class Connection:
    """A channel with the stubs of the gateway's services. Must be created in the event loop that uses it."""

    def __init__(self, address: str) -> None:
        """Raises KafkaError INVALID_CONFIG for an invalid address (see sharebroker_protocol.address)."""
        self._channel = Address.parse(address).open(_OPTIONS)
        self.share: ShareServiceAsyncStub = ShareServiceStub(self._channel)
        self.produce: ProduceServiceAsyncStub = ProduceServiceStub(self._channel)
        self.admin: AdminServiceAsyncStub = AdminServiceStub(self._channel)

    async def close(self) -> None:
        """Closes the channel and cancels the calls in flight."""
        await self._channel.close()


async def call(method: grpc.aio.UnaryUnaryMultiCallable[Any, A], request: Any, timeout: float) -> A:
    """Makes a unary call of at most `timeout` seconds. Raises KafkaError."""
    try:
        return await method(request, timeout=timeout)
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

    def __init__(self) -> None:
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
            _log.warning("consumer cannot connect and retries: %s", error)


_log = logging.getLogger(__name__)


class StreamWriter:
    """Runs `work`, which writes to `call`, and cancels the call if `work` fails, so that the reader ends."""

    def __init__(self, call: grpc.aio.Call, work: Coroutine[Any, Any, None]) -> None:
        self._call = call
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._call.cancel()

    def failure(self) -> ConnectionLostError:
        """Returns the error that the reader raises after the call was cancelled.

        Raises CancelledError if the cancellation did not come from a failed writer.
        """
        if not self._task.done() or self._task.cancelled() or self._task.exception() is None:
            raise asyncio.CancelledError
        _log.error("stream writer failed", exc_info=self._task.exception())
        return ConnectionLostError("the client failed to send")

    async def stop(self) -> None:
        """Cancels the call and the task, and ignores their errors."""
        self._call.cancel()
        await end([self._task])
