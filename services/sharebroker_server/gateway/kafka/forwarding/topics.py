"""CreateTopics and CreatePartitions: the controller of the cluster serves them."""

from __future__ import annotations

from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.gateway.kafka.api import create_partitions, create_topics
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.configs import (
    ListedApi,
    divided,
    forward,
    handle_listed,
    serve_here,
)
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.gateway.kafka.forwarding.visibility import until_visible
from sharebroker_server.gateway.kafka.topics import upstream_topic
from sharebroker_server.kafka_wire import messages
from sharebroker_server.kafka_wire.encoder import EncodedArray
from sharebroker_server.kafka_wire.frames import codec_of
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType

INTERNAL: Final = "__"
"""The prefix of topics that are not followed; clients cannot create them here."""


def _name(item: Any) -> str:
    return str(item.name)


def _may_create(call: Call[Any], topic: Any) -> bool:
    """Returns whether a topic is created in the cluster; this broker creates those of dead letters.

    Assignments name brokers, and those of the cluster are unknown to clients.
    """
    prefix = call.gateway.catalog.broker.errors_deadletterqueue_topic_name_prefix
    own = topic.name.startswith((prefix, INTERNAL))
    return not own and not topic.assignments and call.rights.create_denial(topic.name) is None


def _may_add_partitions(call: Call[Any], topic: Any) -> bool:
    if topic.assignments is not None or upstream_topic(call, topic.name) is None:
        return False
    return call.rights.allows(AclOperation.ALTER, AclResourceType.TOPIC, topic.name)


CREATE_TOPICS: Final = ListedApi(
    create_topics.API, messages.CreateTopicsResponse, "topics", "topics", _name, _may_create
)
CREATE_PARTITIONS: Final = ListedApi(
    create_partitions.API, messages.CreatePartitionsResponse, "topics", "results", _name, _may_add_partitions
)


async def handle_create(upstream: Upstream, call: Call[Any]) -> messages.CreateTopicsResponse:
    """Creates topics in the cluster; returns once they are visible here."""
    request = call.request
    forwarded, own, join = divided(CREATE_TOPICS, call)
    if not forwarded:
        return await create_topics.handle(call)
    if not request.validate_only:
        default = call.gateway.catalog.broker.num_partitions
        added = (topic.num_partitions if topic.num_partitions > 0 else default for topic in forwarded)
        call.mutate(sum(added), strict_from=6)
    with audit.changing("CreateTopics", "TOPIC", map(_name, forwarded)):
        response, created = await forward(CREATE_TOPICS, upstream, call, forwarded)
    for topic in created:
        if not request.validate_only:
            audit.change("CreateTopics", "TOPIC", topic.name, topic.error_code)
        if not call.rights.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic.name):
            topic.configs = None
            topic.num_partitions = topic.replication_factor = -1
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    names = [topic.name for topic in created if not topic.error_code]
    if names and not request.validate_only:
        await until_visible(upstream, call, lambda catalog: all(map(catalog.topic, names)))
    if own:
        here = await serve_here(CREATE_TOPICS, call, own)
        encoded = codec_of(create_topics.API.key, call.version).encoded
        created = EncodedArray(join(map(encoded, created), here.topics))
    return messages.CreateTopicsResponse(topics=created, throttle_time_ms=response.throttle_time_ms)


async def handle_create_partitions(upstream: Upstream, call: Call[Any]) -> messages.CreatePartitionsResponse:
    """Adds partitions in the cluster; returns once they are visible here."""
    forwarded, _, _ = divided(CREATE_PARTITIONS, call)
    counts = {topic.name: topic.count for topic in forwarded}
    changes = not call.request.validate_only
    if changes:
        added = (count - call.gateway.topic(name).partitions for name, count in counts.items())
        call.mutate(sum(max(count, 0) for count in added), strict_from=3)
    with audit.changing("CreatePartitions", "TOPIC", counts):
        response: messages.CreatePartitionsResponse = await handle_listed(CREATE_PARTITIONS, upstream, call)
    results = [result for result in response.results if changes and result.name in counts]
    for result in results:
        audit.change("CreatePartitions", "TOPIC", result.name, result.error_code)
    grown = {result.name: counts[result.name] for result in results if not result.error_code}

    def visible(catalog: TopicCatalog) -> bool:
        topics = ((catalog.topic(name), count) for name, count in grown.items())
        return all(topic is None or topic.partitions >= count for topic, count in topics)

    await until_visible(upstream, call, visible)
    return response
