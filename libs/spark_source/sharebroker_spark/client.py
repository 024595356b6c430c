"""Calls to the gateway, without an event loop; repeated while the server is away."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from sharebroker_protocol.address import Address
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.plan_pb2_grpc import PlanServiceStub
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from sharebroker_protocol.rpc_status import from_rpc_error

A = TypeVar("A")

CALL_SECONDS: Final = 30.0
PATIENCE: Final = 30.0
"""Seconds for which a server that is away is asked again where the query is not to wait for it."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Retriable for Kafka's clients, which wait for metadata; here the topic is not there."""


class Answer(NamedTuple):
    """An answer, and whether it was the first try: an earlier one may have been carried out unheard."""

    value: Any
    first_try: bool


class Client:
    """The gateway at one address; any number of threads. `waits`: for a server that is away, for ever."""

    def __init__(self, address: str, *, waits: bool) -> None:
        self.address = address
        self._waits = waits
        self._closed = threading.Event()
        self._channel = _channel(Address.parse(address))
        self.plans = PlanServiceStub(self._channel)
        self.admin = AdminServiceStub(self._channel)
        self.produce = ProduceServiceStub(self._channel)

    def call(self, method: Callable[..., A], request: Any, seconds: float = CALL_SECONDS) -> A:
        """The answer. Raises KafkaError where asking again is of no use."""
        value: A = self.repeated(method, request, seconds).value
        return value

    def ahead(self, method: Any, request: Any, seconds: float = CALL_SECONDS) -> Callable[[], Any]:
        """Begin a call; what that gives waits for the answer, and raises KafkaError, as `call` does."""
        begun = method.future(request, timeout=seconds)

        def answer() -> Any:
            try:
                return begun.result()
            except grpc.RpcError:
                return self.call(method, request, seconds)

        return answer

    def once(self, method: Callable[..., A], request: Any, seconds: float = CALL_SECONDS) -> A:
        """The answer to one try. Raises KafkaError."""
        try:
            return method(request, timeout=seconds)
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from None
        except ValueError:  # so gRPC says that the channel is closed
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed.") from None

    def repeated(self, method: Callable[..., Any], request: Any, seconds: float = CALL_SECONDS) -> Answer:
        """As `call`, telling whether it was repeated."""
        tries = Tries(self)
        while True:
            try:
                return Answer(self.once(method, request, seconds), tries.first)
            except KafkaError as error:
                tries.again(error)

    def late(self, began: float) -> bool:
        """Whether what was begun then is to be given up."""
        return not self._waits and monotonic() - began > PATIENCE

    @property
    def closed(self) -> bool:
        """Whether nothing is to be asked any more."""
        return self._closed.is_set()

    def pause(self, seconds: float) -> None:
        """Wait before asking again. Raises KafkaError when the connection is closed."""
        if self._closed.wait(seconds):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed.")

    @classmethod
    @contextmanager
    def closing(cls, address: str) -> Iterator[Client]:
        """A client that waits, closed at the end."""
        client = cls(address, waits=True)
        try:
            yield client
        finally:
            client.close()

    def close(self) -> None:
        """Close the connection; calls under way fail."""
        self._closed.set()
        self._channel.close()


def _channel(address: Address) -> grpc.Channel:
    if address.credentials is None:
        return grpc.insecure_channel(address.target, options=_OPTIONS)
    return grpc.secure_channel(address.target, address.credentials, options=address.options(_OPTIONS))


class Tries:
    """Asking again: for how long, and after which pauses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._began = monotonic()
        self._pause = _FIRST_PAUSE
        self.first = True

    def again(self, error: KafkaError) -> None:
        """Wait for the next try after an error. Raises it where another try is of no use, or too late."""
        if not error.retriable or error.code in _GONE or self._client.closed:
            raise error
        if self._client.late(self._began):
            text = f"{self._client.address} cannot be reached, and onUnavailable is fail: {error.message}"
            raise KafkaError(error.code, text) from error
        self.first = False
        self._client.pause(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


_shared: dict[tuple[int, str, bool], Client] = {}
_guard = threading.Lock()


def shared(address: str, *, waits: bool) -> Client:
    """The client of this process: Spark's workers are used again for task after task."""
    key = (os.getpid(), address, waits)
    with _guard:
        if key not in _shared:
            _shared[key] = Client(address, waits=waits)
        return _shared[key]
