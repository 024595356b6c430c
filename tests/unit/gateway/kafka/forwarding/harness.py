"""A listener that passes requests to a cluster whose brokers answer as a test defines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.table import forwarded_apis
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.kafka_client.core.apis import Versions
from sharebroker_server.kafka_client.core.metadata import BrokerNode, ClusterMetadata, Leader, TopicLeaders
from sharebroker_server.kafka_wire.frames import codec_of, read_header, read_request, request_frame
from sharebroker_server.kafka_wire.schema import Message
from tests.unit.gateway.fakes import TOPIC, move_upstream
from tests.unit.gateway.kafka.api.harness import Harness

OWN: Final = Topic("O" * 21 + "A", "dlq.flights", 1)
"""A topic of this cluster."""

OTHER: Final = Topic("X" * 21 + "A", "orders", 2, upstream=True)
"""A further topic of the other cluster."""

BROKERS: Final = {node: BrokerNode(node, f"b{node}", 9092) for node in (1, 2)}


class FakeClient:
    """What forwarding uses of the cluster's client: broker 1 leads partitions 0, broker 2 partitions 1."""

    def __init__(self) -> None:
        self.topics_changed = asyncio.Event()
        self.deleted_topics: set[str] = set()
        self.refreshed: list[str] = []
        self.failure: KafkaError | None = None
        leaders = {0: Leader(1, 5), 1: Leader(2, 6)}
        topics = {topic.name: TopicLeaders(topic.name, topic.topic_id, leaders) for topic in (TOPIC, OTHER)}
        self.metadata = ClusterMetadata("kafka", BROKERS, topics, controller_id=2)
        self.after_refresh = self.metadata

    async def refresh(self, topics: Collection[str] | None = None) -> ClusterMetadata:
        return await self.refresh_stale(*topics or ())

    async def refresh_stale(self, *topics: str) -> ClusterMetadata:
        self.refreshed += topics
        if self.failure is not None:
            raise self.failure
        self.metadata = self.after_refresh
        return self.metadata

    def without_leader(self, topic: str) -> None:
        """Forgets the leaders of a topic until the next refresh."""
        self.metadata = self.metadata.without_leaders(topic)


Sent = tuple[int, Any]


class FakeUpstream(Upstream):
    """Records the node and the message of each request; `replies` are made by node, or by any other one."""

    def __init__(self) -> None:
        self.fake = FakeClient()
        super().__init__(self.fake)  # type: ignore[arg-type]
        self.sent: list[Sent] = []
        self.waits: list[float] = []
        self.reply: Callable[[int, Any], Message | KafkaError] | None = None
        self.offered: list[Versions] = []
        self.coordinated: dict[tuple[int, str], int] = {}

    async def send(
        self, node_id: int, api_key: int, call: Call[Any], request: Message, wait: float = 0.0
    ) -> Any:
        codec = codec_of(api_key, call.version)
        frame = bytes(request_frame(1, call.client_id, codec, request))[4:]
        decoded = read_request(frame, read_header(frame), codec)
        self.sent.append((node_id, decoded))
        self.waits.append(wait)
        assert self.reply is not None, f"nothing is expected to be sent: {decoded}"
        answer = self.reply(node_id, decoded)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def versions(self) -> Collection[Versions]:
        return self.offered

    @property
    def features(self) -> Mapping[str, int]:
        return self.offered[0].features if self.offered else {}

    async def _coordinator(self, kind: int, key: str) -> int:
        return self.coordinated.get((kind, key), 1)

    def messages(self) -> list[Any]:
        """Returns the messages that were sent."""
        return [message for _, message in self.sent]


def pass_to(harness: Harness, upstream: Upstream) -> None:
    """Lets the listener pass requests to a cluster that has TOPIC and OTHER; OWN is here."""
    catalog = harness.gateway.catalog.catalog
    move_upstream(harness.gateway.catalog)
    for topic in (OWN, OTHER):
        catalog.apply(TopicRecord(topic), catalog.position + 1)
    harness.listener.apis = forwarded_apis(APIS, upstream)


def renamed(topic: Topic, **changes: Any) -> Topic:
    """Returns a changed topic."""
    return replace(topic, **changes)


def only(parts: Sequence[Any]) -> Any:
    """Returns the only part."""
    (part,) = parts
    return part
