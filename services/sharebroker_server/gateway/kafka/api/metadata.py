"""Metadata (3): brokers, topics, and the leaders of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import Topic, check_topic_name
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.admin.topics import create_missing
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.cluster_view import Broker
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.encoded_topics import Encoding
from sharebroker_server.gateway.kafka.topics import (
    ON_CLUSTER,
    authorized_operations,
    describe_topic,
    topic_of,
    topics,
)
from sharebroker_server.kafka_wire.encoder import EncodedArray
from sharebroker_server.kafka_wire.frames import codec_of
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse

_BY_ID: Final = 12
"""Versions 10 and 11 have topic ids in their messages, which brokers ignore."""

_PORTION: Final = 500
"""The number of topics and partitions that are described in one turn of the event loop."""

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition
_broker = to_kafka(Broker, MetadataResponse.MetadataResponseBroker)


async def handle(call: Call[MetadataRequest]) -> MetadataResponse:
    """Returns one entry per topic; an unknown topic has its error in its own entry."""
    _check_names(call)
    deadline = call.deadline()
    call = replace(call, view=await call.listener.brokers.checked())
    return MetadataResponse(
        brokers=list(map(_broker, call.view.listed.values())),
        cluster_id=await cluster_id(call.gateway, deadline) or None,
        controller_id=min(call.view.brokers),
        topics=cast("Sequence[_Topic]", await _topics(call, deadline)),
        cluster_authorized_operations=authorized_operations(
            ON_CLUSTER, requested=call.request.include_cluster_authorized_operations
        ),
    )


def _check_names(call: Call[MetadataRequest]) -> None:
    if call.version < _BY_ID and any(
        topic.name is None or topic.topic_id for topic in call.request.topics or ()
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Version {call.version} requires topic names.")


async def _topics(call: Call[MetadataRequest], deadline: Deadline) -> EncodedArray:
    """Returns the topics as bytes; other requests are served between portions."""
    encode, encoded, cost = _Encoder(call), EncodedArray(), 0
    for topic in await _found(call, deadline):
        cost += encode.cost(topic)
        if cost > _PORTION:
            await call.gateway.turns.next()
            cost = encode.cost(topic)  # another call may have encoded it
        encoded.append(encode(topic))
    return encoded


async def _found(call: Call[MetadataRequest], deadline: Deadline) -> Iterable[Topic | _Topic]:
    """Returns the topics of the request, each once, as in Kafka; an unknown one as its error entry."""
    requested = call.request.topics
    # Before version 1 an empty list means all topics, from then on null does.
    if requested is None or (call.version == 0 and not requested):
        return topics(call)
    found: dict[tuple[str | None, str], Topic | _Topic] = {}
    missing: list[str] = []
    for number, key in enumerate(dict.fromkeys((one.name, one.topic_id) for one in requested)):
        if number % _PORTION == _PORTION - 1:
            await call.gateway.turns.next()
        entry = found[key] = _find(call, *key)
        if isinstance(entry, _Topic) and entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            missing.append(entry.name or "")
    if call.request.allow_auto_topic_creation:
        # Those beyond the limit keep the error, upon which clients repeat the request.
        for name, failure in (await create_missing(call.gateway, missing, deadline)).items():
            found[name, ""] = _find(call, name, "") if failure is None else _entry(failure, name)
    return found.values()


def _find(call: Call[MetadataRequest], name: str | None, topic_id: str) -> Topic | _Topic:
    """Returns the topic, or an entry with its error."""
    try:
        if not topic_id:
            check_topic_name(name or "")
        return topic_of(call, name or "", topic_id)
    except KafkaError as error:
        return _entry(error, None if topic_id else name, topic_id)


def _entry(error: KafkaError, name: str | None, topic_id: str = "") -> _Topic:
    return _Topic(error_code=error.code, name=name, topic_id=topic_id)


class _Encoder:
    """Encodes the topics of one response, or returns their cached bytes."""

    def __init__(self, call: Call[MetadataRequest]) -> None:
        self._call = call
        self._cache = call.listener.encoded_topics
        self._encoding = Encoding(call.version, call.request.include_topic_authorized_operations)
        self._bytes = codec_of(API.key, call.version).encoded

    def cost(self, topic: Topic | _Topic) -> int:
        """Returns the cost of a topic in partitions."""
        if isinstance(topic, _Topic) or self._cached(topic) is not None:
            return 1
        return 1 + topic.partitions

    def __call__(self, topic: Topic | _Topic) -> bytes:
        """Returns a topic, or an entry with an error, as bytes."""
        if isinstance(topic, _Topic):
            return self._bytes(topic)
        content = self._cached(topic)
        if content is None:
            described = describe_topic(
                self._call,
                topic,
                range(topic.partitions),
                _Topic,
                _Partition,
                operations=self._encoding.operations,
            )
            content = self._bytes(described)
            self._cache.put(self._call.view, self._encoding, topic, content)
        return content

    def _cached(self, topic: Topic) -> bytes | None:
        return self._cache.get(self._call.view, self._encoding, topic)


_refuse = Refusal(MetadataResponse, {"topics": "topics", "topics.name": lambda topic: topic.name or ""})
API = Api(3, (0, 13), handle, _refuse)
