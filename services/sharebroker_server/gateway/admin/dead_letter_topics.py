"""Which dead letter topics a group may have: none that it consumes, or its letters would return to it."""

from __future__ import annotations

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.config.group import DEAD_LETTER_TOPIC
from sharebroker_server.gateway.admin.groups import describe_groups
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.rpc.errors import wire

_Resource = pb.IncrementalAlterConfigsRequest.Resource
_Refused = pb.IncrementalAlterConfigsResponse.Resource


async def own_sources(
    gateway: Gateway, request: pb.IncrementalAlterConfigsRequest, deadline: Deadline
) -> dict[int, _Refused]:
    """Returns the results of resources whose group would have a topic that a member subscribes to, by index.

    Kafka accepts such a topic, and every failed letter then makes a new one.
    """
    named = {
        index: topic
        for index, resource in enumerate(request.resources)
        if resource.resource_type == pb.RESOURCE_TYPE_GROUP and (topic := _topic_of(resource))
    }
    if not named:
        return {}
    ids = [request.resources[index].resource_name for index in named]
    described = group.ShareGroupDescribeRequest(group_ids=list(dict.fromkeys(ids)))
    groups = (await describe_groups(gateway, described, deadline)).groups
    subscribed = {
        one.group_id: {topic for member in one.members for topic in member.subscribed_topic_names}
        for one in groups
    }
    return {
        index: _refused(request.resources[index], topic)
        for index, topic in named.items()
        if topic in subscribed.get(request.resources[index].resource_name, ())
    }


def _topic_of(resource: _Resource) -> str:
    """Returns the dead letter topic that a change sets, "" if it sets none."""
    return next((config.value.strip() for config in resource.configs if config.name == DEAD_LETTER_TOPIC), "")


def _refused(resource: _Resource, topic: str) -> _Refused:
    name = resource.resource_name
    reason = f"share group {name!r} consumes topic {topic!r}, to which its dead letters would return."
    return _Refused(
        resource_type=resource.resource_type,
        resource_name=name,
        error_code=wire(ErrorCode.INVALID_CONFIG),
        error_message=f"{DEAD_LETTER_TOPIC}: {reason}",
    )
