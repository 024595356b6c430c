"""Topics: creating them when they are first asked for, and changing them through the owner of the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.internal_topics import check_not_internal
from sharebroker_server.catalog.records import ConfigResource, ResourceType, Topic
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import OTHERS_SEE_WITHIN, VISIBLE_WITHIN
from sharebroker_server.gateway.context import Gateway

_FINE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})


async def create_on_demand(gateway: Gateway, name: str, deadline: Deadline) -> Topic:
    """The topic, made now if `auto.create.topics.enable` allows. Raises UNKNOWN_TOPIC_OR_PARTITION.

    For the internal topic INVALID_TOPIC_EXCEPTION: who asks would write to it.
    """
    check_not_internal(name)
    if gateway.catalog.topic(name) is None and gateway.catalog.broker.auto_create_topics_enable:
        request = pb.CreateTopicsRequest(topics=[pb.CreateTopicsRequest.Topic(name=name)])
        (result,) = (await create_topics(gateway, request, deadline)).topics
        if ErrorCode(result.error_code) not in _FINE:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)
        await _see(gateway, lambda catalog: catalog.topic(name) is not None, deadline)
    return gateway.topic(name)


async def create_topics(
    gateway: Gateway, request: pb.CreateTopicsRequest, deadline: Deadline
) -> pb.CreateTopicsResponse:
    """Create topics; when it returns this gateway knows them. Raises KafkaError."""
    response = await gateway.coordinators.of_catalog(
        lambda stub, left: stub.CreateTopics(request, timeout=left), deadline
    )
    made = [topic.topic_id for topic in response.topics if not topic.error_code]
    if made and not request.validate_only:
        await _see(gateway, lambda catalog: all(map(catalog.topic_by_id, made)), deadline)
    return response


async def delete_topics(
    gateway: Gateway, request: pb.DeleteTopicsRequest, deadline: Deadline
) -> pb.DeleteTopicsResponse:
    """Delete topics; when it returns this gateway knows them no more. Raises KafkaError."""
    response = await gateway.coordinators.of_catalog(
        lambda stub, left: stub.DeleteTopics(request, timeout=left), deadline
    )
    gone = [topic.topic_id for topic in response.topics if not topic.error_code]
    await _see(gateway, lambda catalog: not any(map(catalog.topic_by_id, gone)), deadline)
    return response


async def create_partitions(
    gateway: Gateway, request: pb.CreatePartitionsRequest, deadline: Deadline
) -> pb.CreatePartitionsResponse:
    """Add partitions; when it returns this gateway knows them. Raises KafkaError."""
    response = await gateway.coordinators.of_catalog(
        lambda stub, left: stub.CreatePartitions(request, timeout=left), deadline
    )
    fine = {topic.name for topic in response.results if not topic.error_code}
    wanted = {topic.name: topic.count for topic in request.topics if topic.name in fine}
    if not request.validate_only:
        await _see(
            gateway,
            lambda catalog: all(
                (topic := catalog.topic(name)) is None or topic.partitions >= partitions
                for name, partitions in wanted.items()
            ),
            deadline,
        )
    return response


async def alter_configs(
    gateway: Gateway, request: pb.IncrementalAlterConfigsRequest, deadline: Deadline
) -> pb.IncrementalAlterConfigsResponse:
    """Change settings; when it returns this gateway knows them. Raises KafkaError."""
    response = await gateway.coordinators.of_catalog(
        lambda stub, left: stub.IncrementalAlterConfigs(request, timeout=left), deadline
    )
    if not request.validate_only:
        wanted = [
            (ConfigResource(ResourceType(one.resource_type), one.resource_name), config)
            for one in response.responses
            for config in one.configs
        ]
        await _see(gateway, lambda catalog: all(_is_set(catalog, *one) for one in wanted), deadline)
    return response


def _is_set(
    catalog: TopicCatalog, resource: ConfigResource, config: pb.IncrementalAlterConfigsResponse.Config
) -> bool:
    return catalog.configs(resource).get(config.name) == (config.value if config.HasField("value") else None)


async def _see(gateway: Gateway, done: Callable[[TopicCatalog], bool], deadline: Deadline) -> None:
    """Wait until a change, which is durable already, shows: here, and most likely in the other processes.

    Each follows the catalog by itself, so what is called next would else meet some that do not know yet.
    """
    with suppress(KafkaError):
        await gateway.catalog.wait_for(done, min(deadline.remaining(), VISIBLE_WITHIN))
        if len(gateway.router.members) > 1:
            await asyncio.sleep(OTHERS_SEE_WITHIN)
