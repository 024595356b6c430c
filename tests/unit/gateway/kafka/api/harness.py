"""Drives the handler of one API through dispatch, with fakes of all services behind the gateway.

A request is encoded in its version and decoded by dispatch; the response returns the same way. Fields that
the version does not have are therefore lost, as they are for a client.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceStub
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceStub,
)
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID, STATE_TOPIC_ID
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.call import Call, ClientConnection, KafkaListener
from sharebroker_server.gateway.kafka.cluster_view import Brokers, ClusterView, LiveMembers
from sharebroker_server.gateway.kafka.dispatch import decode, serve
from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.schema import Message, api_schema
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import GATEWAY, Router
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.unit.gateway.fakes import OwnerLookup, catalog, member

A = TypeVar("A", bound=Message)
Q = TypeVar("Q", bound=Message)

KEYS: Final = {api_schema(key).request.name: key for key in APIS}
SHARDS: Final = list(range(50))
LOCAL: Final = ClusterMember("1/1", 1, frozenset({GATEWAY}), "127.0.0.1:1", "127.0.0.1:9092")
PEER: Final = ClusterMember("2/1", 2, frozenset({GATEWAY}), "127.0.0.1:2", "127.0.0.1:9093")


class Services:
    """Every service behind the gateway: it records requests and returns the replies of a test."""

    STREAMING = ()

    def __init__(self) -> None:
        self.requests: defaultdict[str, list[Any]] = defaultdict(list)
        self._replies: dict[str, Callable[[Any], Any]] = {}

    def reply(self, method: str, response: Any) -> None:
        """Sets the response of a method: a message, or a function of the request."""
        self._replies[method] = response if callable(response) else lambda _: response

    def reply_each(self, method: str, response: type[Any], **fields: Any) -> None:
        """Sets the response of a method of leaders: these fields for each partition of the request."""

        def make(request: Any) -> Any:
            return response(
                partitions=[
                    response.Partition(topic_id=one.topic_id, partition=one.partition, **fields)
                    for one in request.partitions
                ]
            )

        self._replies[method] = make

    def fail(self, method: str, code: ErrorCode, **metadata: str) -> None:
        """Has a method raise an error."""

        def fail(_: Any) -> Any:
            raise KafkaError(code, "on demand", metadata=metadata)

        self._replies[method] = fail

    def only(self, method: str) -> Any:
        """Returns the only request of a method."""
        (request,) = self.requests[method]
        return request

    def __getattr__(self, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
        async def handle(request: Any, context: Any) -> Any:
            self.requests[method].append(request)
            return self._replies[method](request)

        return handle


class Harness:
    """A Kafka listener without sockets. `view` is its broker's view of the cluster."""

    def __init__(self, features: Mapping[str, int] | None = None, **properties: str) -> None:
        self.services = Services()
        self.router = Router(OwnerLookup(member(1, "127.0.0.1:1")), "1/1")
        for stub in (
            ClusterServiceStub,
            GroupCoordinatorServiceStub,
            ShareCoordinatorServiceStub,
            SharePartitionLeaderServiceStub,
            TransactionCoordinatorServiceStub,
        ):
            self.router.register_local(stub, self.services)
        config = {name.replace("_", "."): value for name, value in properties.items()}
        self.gateway = Gateway(self.router, catalog(), BrokerConfig.of(config))
        if features is not None:
            self.gateway.catalog.features = features
        brokers = Brokers(
            LiveMembers(OwnerLookup(LOCAL), _not_refused),
            LOCAL,
            MemoryLeaseStore(),
            self.router.group_shard,
            self._partitions,
        )
        self.listener = KafkaListener(self.gateway, brokers, APIS)
        self.client = ClientConnection("kafka-1", "/10.0.0.1")
        self.view = self._view(LOCAL)

    def lead_elsewhere(self) -> None:
        """Makes another broker the leader and coordinator of everything."""
        self.view = self._view(PEER)

    async def call(self, version: int, request: Message, response: type[A]) -> A:
        """Returns the response to a request in a version."""
        made = await self.send(version, request)
        assert isinstance(made, response)
        return made

    async def send(self, version: int, request: Message) -> Message | None:
        """Returns the response to a request, or None if it has none."""
        codec = codec_of(KEYS[type(request).__name__], version)
        frame = bytes(request_frame(7, "client", codec, request))
        decoded = decode(self.listener, self.client, self.view, frame[4:])
        (encoded,) = await serve([decoded])
        if encoded is None:
            return None
        correlation_id, message = read_response(bytes(encoded.content[4:]), codec)
        assert correlation_id == 7
        return message

    def call_of(self, request: Q, version: int = 0) -> Call[Q]:
        """Returns a call with a request, for tests of a handler's parts."""
        return Call(self.listener, self.client, "client", version, request, self.view)

    async def close(self) -> None:
        """Stops the gateway."""
        await self.gateway.stop()
        await self.router.close()

    def _view(self, broker: ClusterMember) -> ClusterView:
        return ClusterView((broker,), LOCAL.node_id, 3, self.router.group_shard, self._partitions)

    def _partitions(self, topic_id: str) -> int:
        if topic_id in (OFFSETS_TOPIC_ID, STATE_TOPIC_ID):
            return len(SHARDS)
        return self.gateway.catalog.partitions(topic_id)


async def _not_refused(_: str) -> bool:
    return False


def codes(partitions: Sequence[Any]) -> dict[int, int]:
    """Returns the error codes of partitions by index."""
    return {getattr(one, "partition_index", getattr(one, "index", 0)): one.error_code for one in partitions}
