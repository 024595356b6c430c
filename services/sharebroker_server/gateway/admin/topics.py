"""Topics through the owner of the catalog, and topic creation on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.machine import MAX_PARTITIONS
from sharebroker_server.catalog.topics import Topic, check_not_internal
from sharebroker_server.gateway.admin.visibility import await_visible
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security import audit

MAX_CREATED_ON_DEMAND: Final = 100
"""The number of topics that one request creates on demand; the catalog makes as many changes together."""

_CREATED: Final = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})


async def create_on_demand(gateway: Gateway, name: str, deadline: Deadline) -> Topic:
    """Returns a topic, and creates it if `auto.create.topics.enable` is set.

    Raises UNKNOWN_TOPIC_OR_PARTITION, and INVALID_TOPIC_EXCEPTION for an internal topic, which is read-only.
    """
    check_not_internal(name)
    if gateway.catalog.topic(name) is None:
        error = (await create_missing(gateway, [name], deadline)).get(name)
        if error is not None:
            raise error
    return gateway.topic(name)


async def create_missing(
    gateway: Gateway, names: Sequence[str], deadline: Deadline
) -> dict[str, KafkaError | None]:
    """Creates the first topics of `names` if `auto.create.topics.enable` is set; none exists or is internal.

    Returns the outcome of each topic that it tried to create, None for success. There are at most
    MAX_CREATED_ON_DEMAND, and fewer if they had too many partitions for one request.
    """
    config = gateway.catalog.broker
    if not names or not config.auto_create_topics_enable:
        return {}
    tried = names[: max(1, min(MAX_CREATED_ON_DEMAND, MAX_PARTITIONS // config.num_partitions))]
    request = pb.CreateTopicsRequest(topics=[pb.CreateTopicsRequest.Topic(name=name) for name in tried])
    try:
        results = (await create_topics(gateway, request, deadline)).topics
    except KafkaError as error:
        return dict.fromkeys(tried, error)
    outcomes = dict(zip(tried, map(_failure, results), strict=True))
    made = [name for name, failure in outcomes.items() if failure is None]
    await await_visible(gateway, lambda catalog: all(map(catalog.topic, made)), deadline)
    return outcomes


def _failure(result: pb.CreateTopicsResponse.Topic) -> KafkaError | None:
    code = ErrorCode(result.error_code)
    return None if code in _CREATED else KafkaError(code, result.error_message)


async def create_topics(
    gateway: Gateway, request: pb.CreateTopicsRequest, deadline: Deadline
) -> pb.CreateTopicsResponse:
    """Creates topics; returns when the metadata cache has them. Raises KafkaError."""
    with audit.changing("CreateTopics", "TOPIC", (topic.name for topic in request.topics)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.CreateTopics(request, timeout=left), deadline
        )
    for topic in () if request.validate_only else response.topics:
        details = {"id": topic.topic_id, "partitions": topic.num_partitions}
        audit.change("CreateTopics", "TOPIC", topic.name, topic.error_code, **details)
    created = [topic.topic_id for topic in response.topics if not topic.error_code]
    if created and not request.validate_only:
        await await_visible(gateway, lambda catalog: all(map(catalog.topic_by_id, created)), deadline)
    return response


async def delete_topics(
    gateway: Gateway, request: pb.DeleteTopicsRequest, deadline: Deadline
) -> pb.DeleteTopicsResponse:
    """Deletes topics; returns when the metadata cache no longer has them. Raises KafkaError."""
    with audit.changing("DeleteTopics", "TOPIC", (topic.name or topic.topic_id for topic in request.topics)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.DeleteTopics(request, timeout=left), deadline
        )
    for topic in response.topics:
        name = topic.name or topic.topic_id
        audit.change("DeleteTopics", "TOPIC", name, topic.error_code, id=topic.topic_id)
    deleted = [topic.topic_id for topic in response.topics if not topic.error_code]
    await await_visible(gateway, lambda catalog: not any(map(catalog.topic_by_id, deleted)), deadline)
    return response


async def create_partitions(
    gateway: Gateway, request: pb.CreatePartitionsRequest, deadline: Deadline
) -> pb.CreatePartitionsResponse:
    """Adds partitions; returns when the metadata cache has them. Raises KafkaError."""
    with audit.changing("CreatePartitions", "TOPIC", (topic.name for topic in request.topics)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.CreatePartitions(request, timeout=left), deadline
        )
    succeeded = {topic.name for topic in response.results if not topic.error_code}
    counts = {topic.name: topic.count for topic in request.topics if topic.name in succeeded}
    if not request.validate_only:
        for topic in response.results:
            partitions = counts.get(topic.name)
            audit.change("CreatePartitions", "TOPIC", topic.name, topic.error_code, partitions=partitions)
        await await_visible(
            gateway,
            lambda catalog: all(
                (topic := catalog.topic(name)) is None or topic.partitions >= partitions
                for name, partitions in counts.items()
            ),
            deadline,
        )
    return response
