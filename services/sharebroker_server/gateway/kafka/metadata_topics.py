"""The topics of Metadata: those of a request that the client may see or create, and those of a response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_IDS, Topic, check_topic_name
from sharebroker_server.gateway.admin.topics import create_missing
from sharebroker_server.gateway.kafka.authorization import authorized_operations
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.encoded_topics import Encoding
from sharebroker_server.gateway.kafka.topics import describable_topics, describe_topic, topic_of
from sharebroker_server.kafka_wire.frames import codec_of
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType, Resource

PORTION: Final = 500
"""The number of topics that are looked up, or of topics and partitions that are described, in one turn of the
event loop."""

_METADATA: Final = 3
_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition

FoundTopic = Topic | _Topic
"""A topic, or an entry with its error."""


async def find_topics(call: Call[MetadataRequest], deadline: Deadline) -> Iterable[FoundTopic]:
    """Returns the topics of the request, each once, as in Kafka; an unknown one as its error entry.

    A request for all topics finds those that the client may DESCRIBE. Missing topics are created on demand.
    """
    requested = call.request.topics
    # Before version 1 an empty list means all topics, from then on null does.
    if requested is None or (call.version == 0 and not requested):
        return await describable_topics(call)
    found: dict[tuple[str | None, str], FoundTopic] = {}
    missing: list[str] = []
    for number, one in enumerate(requested):
        if number % PORTION == PORTION - 1:
            await call.gateway.turns.next()
        key = one.name, one.topic_id
        if key in found:
            continue
        entry = found[key] = _find(call, *key)
        if isinstance(entry, _Topic) and entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            missing.append(entry.name or "")
    if call.request.allow_auto_topic_creation:
        # Those beyond the limit keep the error, upon which clients repeat the request.
        for name, failure in (await create_missing(call.gateway, missing, deadline)).items():
            found[name, ""] = _find(call, name, "") if failure is None else _entry(call, failure, name)
    return found.values()


def topic_operations(call: Call[MetadataRequest], name: str) -> int:
    """Returns the operations that the client may do to a topic, if the request asks for them."""
    requested = call.request.include_topic_authorized_operations
    return authorized_operations(call, Resource(AclResourceType.TOPIC, name), requested=requested)


def _find(call: Call[MetadataRequest], name: str | None, topic_id: str) -> FoundTopic:
    """Returns the topic, or an entry with its error."""
    try:
        if not topic_id:
            _check_name(call, name or "")
        return topic_of(call, AclOperation.DESCRIBE, name or "", topic_id)
    except KafkaError as error:
        return _entry(call, error, None if topic_id else name, topic_id)


def _check_name(call: Call[MetadataRequest], name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION.

    Raises TOPIC_AUTHORIZATION_FAILED unless the client may DESCRIBE the topic, and create a missing one.
    """
    call.rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    creates = call.request.allow_auto_topic_creation and call.gateway.catalog.broker.auto_create_topics_enable
    missing = name not in INTERNAL_TOPIC_IDS and call.gateway.catalog.topic(name) is None
    if creates and missing:
        call.rights.require_creation(name)
    check_topic_name(name)


def _entry(call: Call[MetadataRequest], error: KafkaError, name: str | None, topic_id: str = "") -> _Topic:
    entry = _Topic(error_code=error.code, name=name, topic_id=topic_id)
    if name and error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        entry.topic_authorized_operations = topic_operations(call, name)
    return entry


class TopicEncoder:
    """Encodes the topics of one response, or returns their cached bytes."""

    def __init__(self, call: Call[MetadataRequest]) -> None:
        self._call = call
        self._cache = call.listener.encoded_topics
        self._bytes = codec_of(_METADATA, call.version).encoded

    def cost(self, topic: FoundTopic) -> int:
        """Returns the cost of a topic in partitions."""
        if isinstance(topic, _Topic) or self._cached(topic) is not None:
            return 1
        return 1 + topic.partitions

    def __call__(self, topic: FoundTopic) -> bytes:
        """Returns a topic, or an entry with an error, as bytes."""
        if isinstance(topic, _Topic):
            return self._bytes(topic)
        content = self._cached(topic)
        if content is None:
            encoding = self._encoding(topic)
            described = describe_topic(
                self._call, topic, range(topic.partitions), _Topic, _Partition, encoding.operations
            )
            content = self._bytes(described)
            if self._caches(topic):
                self._cache.put(self._call.view, encoding, topic, content)
        return content

    def _caches(self, topic: Topic) -> bool:
        """Returns whether the bytes depend on this cluster alone."""
        return not topic.upstream or self._call.listener.upstream_epoch is None

    def _cached(self, topic: Topic) -> bytes | None:
        if not self._caches(topic):
            return None
        return self._cache.get(self._call.view, self._encoding(topic), topic)

    def _encoding(self, topic: Topic) -> Encoding:
        return Encoding(self._call.version, topic_operations(self._call, topic.name))
