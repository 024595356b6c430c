"""DeleteTopics: the controller of the cluster deletes its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.api import delete_topics
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.core.splitting import divide, in_order, replaced
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.gateway.kafka.forwarding.visibility import until_visible
from sharebroker_server.gateway.kafka.topics import upstream_topic
from sharebroker_server.kafka_wire import messages
from sharebroker_server.security import audit


async def handle_delete(upstream: Upstream, call: Call[Any]) -> messages.DeleteTopicsResponse:
    """Deletes topics in the cluster; returns once they are no longer here."""
    topics = delete_topics.named_topics(call.request)
    counted = Counter(topics)
    forwarded, own, join = divide(topics, lambda topic: counted[topic] == 1 and _may_delete(call, topic))
    if not forwarded:
        return await delete_topics.handle(call)
    found = [upstream_topic(call, *topic) for topic in forwarded]
    call.mutate(sum(topic.partitions for topic in found if topic is not None), strict_from=5)
    request = _deleting(call.request, forwarded)
    with audit.changing("DeleteTopics", "TOPIC", map(str, forwarded)):
        response = await upstream.at_controller(
            delete_topics.API.key, call, request, max(request.timeout_ms, 0) / 1000
        )
    by_id = any(topic.topic_id for topic in forwarded)
    results = in_order(
        (topic.topic_id if by_id else topic.name for topic in forwarded),
        response.responses,
        lambda result: result.topic_id if by_id else result.name,
    )
    gone = set()
    for topic, known, result in zip(forwarded, found, results, strict=True):
        audit.change("DeleteTopics", "TOPIC", str(topic), result.error_code)
        if known is not None and not result.error_code:
            gone.add(known.topic_id)
    upstream.client.deleted_topics |= gone
    await until_visible(upstream, call, lambda catalog: not any(map(catalog.topic_by_id, gone)))
    if own:
        here = await delete_topics.handle(replace(call, request=_deleting(call.request, own)))
        results = join(results, here.responses)
    return messages.DeleteTopicsResponse(responses=results, throttle_time_ms=response.throttle_time_ms)


def _deleting(request: Any, topics: Sequence[delete_topics.NamedTopic]) -> Any:
    """Returns the request for some of its topics, which versions before 6 list by name only."""
    if request.topic_names:
        return replaced(request, topic_names=[topic.name for topic in topics])
    chosen = set(topics)
    named = delete_topics.NamedTopic
    kept = [topic for topic in request.topics if named(topic.name or "", topic.topic_id) in chosen]
    return replaced(request, topics=kept)


def _may_delete(call: Call[Any], topic: delete_topics.NamedTopic) -> bool:
    if upstream_topic(call, *topic) is None or bool(topic.name) == bool(topic.topic_id):
        return False
    try:
        delete_topics.authorize(call, topic)
    except KafkaError:
        return False
    return True
