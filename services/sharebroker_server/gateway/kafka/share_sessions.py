"""What ShareFetch and ShareAcknowledge share: the caller, acknowledgements, and partitions in responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.authorization import Caller
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.cluster_view import LED_ELSEWHERE
from sharebroker_server.gateway.kafka.topics import PORTION
from sharebroker_server.kafka_wire.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

R = TypeVar("R", ShareFetchResponse, ShareAcknowledgeResponse)


def caller(call: Call) -> Caller:
    """Returns the client of the request, and which partitions clients fetch from this broker."""
    return Caller(call.client.connection, call.rights, call.view.leads, call.view.leaving)


def session_key(call: Call[ShareFetchRequest] | Call[ShareAcknowledgeRequest]) -> SessionKey:
    """Returns the key of the share session."""
    request = call.request
    return SessionKey(request.group_id or "", request.member_id or "", call.client.principal.owner)


async def ack_batches(
    call: Call[ShareFetchRequest] | Call[ShareAcknowledgeRequest],
) -> dict[TopicIdPartition, list[AckBatch]]:
    """Returns the ack batches by partition, in the order of first mention.

    librdkafka names topics repeatedly.
    """
    batches: dict[TopicIdPartition, list[AckBatch]] = {}
    number = 0
    for topic in call.request.topics:
        for part in topic.partitions:
            of_partition = batches.setdefault(TopicIdPartition(topic.topic_id, part.partition_index), [])
            for batch in part.acknowledgement_batches:
                of_partition.append(AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types))
            number += 1
            if not number % PORTION:
                await call.gateway.turns.next()
    return batches


async def add_results(
    call: Call, response: R, make_topic: type[Any], results: Iterable[tuple[TopicIdPartition, Any]]
) -> R:
    """Adds the results of partitions to a response, grouped by topic, with leader hints."""
    topics: dict[str, list[Any]] = {}
    moved = []
    for number, (partition, result) in enumerate(results):
        if number and not number % PORTION:
            await call.gateway.turns.next()
        topics.setdefault(partition.topic_id, []).append(result)
        if (
            result.error_code in LED_ELSEWHERE
            or getattr(result, "acknowledge_error_code", 0) in LED_ELSEWHERE
        ):
            moved.append((partition, result))
    response.responses = [
        make_topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()
    ]
    call.view.add_leader_hints(response, moved)
    return response
