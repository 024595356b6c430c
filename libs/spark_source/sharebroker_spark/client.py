"""Blocking calls to the gateway, retried while the server is unavailable; start and end offsets of topics."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from sharebroker_protocol.address import CONNECT_TIMEOUT, Address
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2, admin_pb2_grpc, plan_pb2_grpc, produce_pb2_grpc
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_spark.core.offsets import Partition

A = TypeVar("A")

CALL_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 30.0
"""The time for which calls are retried with onUnavailable=fail, in seconds."""
_FIRST_PAUSE: Final = 0.1
_MAX_PAUSE: Final = 2.0
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    CONNECT_TIMEOUT,
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)
_NOT_FOUND: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Retriable for Kafka's clients, which wait for metadata; here the topic does not exist."""


class CallResult(NamedTuple):
    """A response, and whether it is that of the first attempt.

    An earlier attempt may have taken effect unnoticed.
    """

    value: Any
    first_attempt: bool


class GatewayClient:
    """A client of the gateway at one address, for any number of threads.

    With `waits` it retries indefinitely.
    """

    def __init__(self, address: str, *, waits: bool) -> None:
        self.address = address
        self._waits = waits
        self._closed = threading.Event()
        self._channel = Address.parse(address).open_blocking(_OPTIONS)
        self.plans = plan_pb2_grpc.PlanServiceStub(self._channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self._channel)
        self.produce = produce_pb2_grpc.ProduceServiceStub(self._channel)

    def call(self, method: Callable[..., A], request: Any, seconds: float = CALL_SECONDS) -> A:
        """Returns the response. Raises KafkaError if a retry is of no use."""
        value: A = self.call_with_retry(method, request, seconds).value
        return value

    def start_call(self, method: Any, request: Any, seconds: float = CALL_SECONDS) -> Callable[[], Any]:
        """Starts a call; the returned function waits for the response and raises as `call` does."""
        future = method.future(request, timeout=seconds)

        def result() -> Any:
            try:
                return future.result()
            except grpc.RpcError:
                return self.call(method, request, seconds)

        return result

    def try_once(self, method: Callable[..., A], request: Any, seconds: float = CALL_SECONDS) -> A:
        """Returns the response to a single attempt. Raises KafkaError."""
        try:
            return method(request, timeout=seconds)
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from None
        except ValueError:  # raised by gRPC if the channel is closed
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed.") from None

    def call_with_retry(
        self, method: Callable[..., Any], request: Any, seconds: float = CALL_SECONDS
    ) -> CallResult:
        """Like `call`, but also returns whether the call was repeated."""
        retries = Retries(self)
        while True:
            try:
                return CallResult(self.try_once(method, request, seconds), retries.first)
            except KafkaError as error:
                retries.wait(error)

    def is_retry_over(self, started: float) -> bool:
        """Returns whether retries of a call started at `started` must end."""
        return not self._waits and monotonic() - started > RETRY_SECONDS

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return self._closed.is_set()

    def pause(self, seconds: float) -> None:
        """Waits before a retry. Raises KafkaError if the client is closed."""
        if self._closed.wait(seconds):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed.")

    def close(self) -> None:
        """Closes the connection; calls in flight fail."""
        self._closed.set()
        self._channel.close()


class Retries:
    """The retries of a call: how long and after which pauses."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._started = monotonic()
        self._pause = _FIRST_PAUSE
        self.first = True

    def wait(self, error: KafkaError) -> None:
        """Waits before the next attempt. Raises the error if it is not retriable or the time is over."""
        if not error.retriable or error.code in _NOT_FOUND or self._client.closed:
            raise error
        if self._client.is_retry_over(self._started):
            text = f"{self._client.address} is unavailable, and onUnavailable is fail: {error.message}"
            raise KafkaError(error.code, text) from error
        self.first = False
        self._client.pause(self._pause)
        self._pause = min(2 * self._pause, _MAX_PAUSE)


_shared: dict[tuple[int, str, bool], GatewayClient] = {}
_guard = threading.Lock()


def shared(address: str, *, waits: bool) -> GatewayClient:
    """Returns the client of this process: Spark's workers are reused for many tasks."""
    key = (os.getpid(), address, waits)
    with _guard:
        if key not in _shared:
            _shared[key] = GatewayClient(address, waits=waits)
        return _shared[key]


_LATEST: Final = -1
_EARLIEST: Final = -2
_COMMITTED: Final = 1


def log_spans(client: GatewayClient, topics: Iterable[str]) -> dict[Partition, tuple[int, int]]:
    """Returns the first offset and the last stable offset of each partition. Raises KafkaError."""
    names: dict[str, str] = {}
    parts = []
    for topic in client.call(client.admin.Metadata, admin_pb2.MetadataRequest(topics=topics)).topics:
        if topic.error_code:
            raise KafkaError(ErrorCode(topic.error_code), f"Topic '{topic.name}' does not exist.")
        names[topic.topic_id] = topic.name
        parts += [(topic.topic_id, partition.partition_index) for partition in topic.partitions]
    starts = _offsets(client, parts, _EARLIEST)
    ends = _offsets(client, parts, _LATEST)
    return {(names[part[0]], part[1]): (starts[part], ends[part]) for part in parts}


def _offsets(
    client: GatewayClient, parts: list[tuple[str, int]], timestamp: int
) -> dict[tuple[str, int], int]:
    request = leader.ListOffsetsRequest(
        partitions=[
            leader.ListOffsetsRequest.Partition(topic_id=topic_id, partition=partition, timestamp=timestamp)
            for topic_id, partition in parts
        ],
        isolation_level=_COMMITTED,
    )
    results = client.call(client.admin.ListOffsets, request).partitions
    for result in results:
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)
    return {(result.topic_id, result.partition): result.offset for result in results}
