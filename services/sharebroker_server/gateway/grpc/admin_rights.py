"""What callers of AdminService may do: as in Kafka, by item where the response has one result per item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import ResourceType
from sharebroker_server.gateway.admin.cluster import metadata_of
from sharebroker_server.gateway.authorization import GROUP, TOPIC, Access
from sharebroker_server.gateway.grpc.servicers import PORTION, Check, Function, Items
from sharebroker_server.rpc.errors import refusal, wire
from sharebroker_server.security.acl import CLUSTER, AclOperation, Resource

Denial = Callable[[Access, Any], KafkaError | None]


def _named(operation: AclOperation) -> Denial:
    """Returns the denial of items that name a topic."""
    return lambda access, item: access.denial(operation, TOPIC, item.name)


def _by_id(operation: AclOperation) -> Denial:
    """Returns the denial of items that contain a topic id."""
    return lambda access, item: access.id_denial(operation, item.topic_id)


def _group_id(operation: AclOperation) -> Denial:
    """Returns the denial of items that are group ids."""
    return lambda access, item: access.denial(operation, GROUP, item)


def _group_of(operation: AclOperation) -> Check:
    """Returns the check of a request that contains a group id."""
    return lambda access, request: access.require(operation, GROUP, request.group_id)


def _configs(operation: AclOperation) -> Denial:
    def denial(access: Access, item: Any) -> KafkaError | None:
        resources = {
            ResourceType.TOPIC: Resource(TOPIC, item.resource_name),
            ResourceType.GROUP: Resource(GROUP, item.resource_name),
            ResourceType.BROKER: CLUSTER,
        }
        resource = resources.get(item.resource_type)
        return None if resource is None else access.denial(operation, *resource)

    return denial


def _partition(response: Any) -> Callable[[Any, KafkaError], Any]:
    """Returns what makes the result of a partition that is named by its topic's id."""
    return lambda item, error: response(topic_id=item.topic_id, partition=item.partition, **refusal(error))


def _topic(response: Any) -> Callable[[Any, KafkaError], Any]:
    """Returns what makes the result of a topic that is named."""
    return lambda item, error: response(name=item.name, **refusal(error))


def _resource(response: Any) -> Callable[[Any, KafkaError], Any]:
    """Returns what makes the result of a resource with configs."""
    return lambda item, error: response(
        resource_type=item.resource_type, resource_name=item.resource_name, **refusal(error)
    )


# Cluster, topics and configs


def check_describe_cluster(access: Access, _: object) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED."""
    access.require(AclOperation.DESCRIBE, *CLUSTER)


def check_alter_cluster(access: Access, _: object) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED."""
    access.require(AclOperation.ALTER, *CLUSTER)


def permit_all(_: Access, __: object) -> None:
    """Permits every caller, as Kafka's ApiVersions does."""


def check_describe_quotas(access: Access, _: object) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED."""
    access.require(AclOperation.DESCRIBE_CONFIGS, *CLUSTER)


def check_alter_quotas(access: Access, _: object) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED."""
    access.require(AclOperation.ALTER_CONFIGS, *CLUSTER)


async def metadata(
    _: Function[Any, Any], access: Access, request: admin_pb2.MetadataRequest, deadline: Deadline
) -> admin_pb2.MetadataResponse:
    """Describes the topics that the caller may describe; of all topics, others are left out."""
    creates, turns = request.allow_auto_topic_creation, access.gateway.turns
    if not request.topics:
        every = [topic.name for topic in access.gateway.catalog.catalog.topics()]
        allows = ((name, access.allows(AclOperation.DESCRIBE, TOPIC, name)) for name in every)
        visible = [name for name, allowed in await turns.collect(allows, PORTION) if allowed]
        return await metadata_of(access.gateway, visible, deadline, create=False)

    def denial(name: str) -> KafkaError | None:
        denied = access.denial(AclOperation.DESCRIBE, TOPIC, name)
        return denied or (access.creation_denial(name) if creates else None)

    named = ((name, denial(name)) for name in dict.fromkeys(request.topics))
    denials = await turns.collect(named, PORTION)
    response = await metadata_of(
        access.gateway, [name for name, error in denials if error is None], deadline, create=creates
    )
    refused = (
        admin_pb2.MetadataResponse.Topic(name=name, error_code=wire(error.code))
        for name, error in denials
        if error is not None
    )
    response.topics.extend(await turns.collect(refused, PORTION))
    return response


def _deletion_denial(access: Access, item: Any) -> KafkaError | None:
    """Returns why a topic may not be deleted.

    Without DESCRIBE the id of an existing topic is as unknown as any other.
    """
    if access.allows_on_cluster(AclOperation.DELETE):
        return None
    if not item.topic_id:
        return access.denial(AclOperation.DESCRIBE, TOPIC, item.name) or access.denial(
            AclOperation.DELETE, TOPIC, item.name
        )
    if access.id_denial(AclOperation.DESCRIBE, item.topic_id) is not None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return access.id_denial(AclOperation.DELETE, item.topic_id)


def _refused_coordinator(key: str, error: KafkaError) -> admin_pb2.FindCoordinatorResponse.Coordinator:
    return admin_pb2.FindCoordinatorResponse.Coordinator(key=key, node_id=-1, **refusal(error))


_COORDINATORS = {
    key_type: Items(
        "coordinator_keys", "coordinators", admin_pb2.FindCoordinatorResponse, denial, _refused_coordinator
    )
    for key_type, denial in (
        (admin_pb2.KEY_TYPE_UNSPECIFIED, _group_id(AclOperation.DESCRIBE)),
        (
            admin_pb2.KEY_TYPE_SHARE,
            lambda access, _: access.denial(AclOperation.CLUSTER_ACTION, *CLUSTER),
        ),
    )
}


async def find_coordinator(
    function: Function[Any, Any],
    access: Access,
    request: admin_pb2.FindCoordinatorRequest,
    deadline: Deadline,
) -> admin_pb2.FindCoordinatorResponse:
    """Finds the coordinators of groups that the caller may describe; those of share state for processes."""
    share = request.key_type == admin_pb2.KEY_TYPE_SHARE
    items = _COORDINATORS[admin_pb2.KEY_TYPE_SHARE if share else admin_pb2.KEY_TYPE_UNSPECIFIED]
    response: admin_pb2.FindCoordinatorResponse = await items(function, access, request, deadline)
    return response


DESCRIBE_CONFIGS = Items(
    "resources",
    "results",
    admin_pb2.DescribeConfigsResponse,
    _configs(AclOperation.DESCRIBE_CONFIGS),
    _resource(admin_pb2.DescribeConfigsResponse.Result),
)
ALTER_CONFIGS = Items(
    "resources",
    "responses",
    cluster_pb2.IncrementalAlterConfigsResponse,
    _configs(AclOperation.ALTER_CONFIGS),
    _resource(cluster_pb2.IncrementalAlterConfigsResponse.Resource),
)
CREATE_TOPICS = Items(
    "topics",
    "topics",
    cluster_pb2.CreateTopicsResponse,
    lambda access, item: access.create_denial(item.name),
    _topic(cluster_pb2.CreateTopicsResponse.Topic),
)
DELETE_TOPICS = Items(
    "topics",
    "topics",
    cluster_pb2.DeleteTopicsResponse,
    _deletion_denial,
    lambda item, error: cluster_pb2.DeleteTopicsResponse.Topic(
        name=item.name, topic_id=item.topic_id, **refusal(error)
    ),
)
CREATE_PARTITIONS = Items(
    "topics",
    "results",
    cluster_pb2.CreatePartitionsResponse,
    _named(AclOperation.ALTER),
    _topic(cluster_pb2.CreatePartitionsResponse.Topic),
)

# Partitions


def _list_offsets_denial(access: Access, item: Any) -> KafkaError | None:
    """Returns why an offset may not be listed, or the number of locks of a group may not be read."""
    denial = access.id_denial(AclOperation.DESCRIBE, item.topic_id)
    if denial is None and item.HasField("locked_by_group"):
        return access.denial(AclOperation.DESCRIBE, GROUP, item.locked_by_group)
    return denial


LIST_OFFSETS = Items(
    "partitions",
    "partitions",
    leader.ListOffsetsResponse,
    _list_offsets_denial,
    _partition(leader.ListOffsetsResponse.Partition),
)
DELETE_RECORDS = Items(
    "partitions",
    "partitions",
    leader.DeleteRecordsResponse,
    _by_id(AclOperation.DELETE),
    _partition(leader.DeleteRecordsResponse.Partition),
)
DESCRIBE_LOGS = Items(
    "partitions",
    "partitions",
    leader.DescribeLogsResponse,
    _by_id(AclOperation.DESCRIBE),
    _partition(leader.DescribeLogsResponse.Partition),
)
RECALL_RECORDS = Items(
    "partitions",
    "partitions",
    leader.RecallRecordsResponse,
    _by_id(AclOperation.WRITE),
    _partition(leader.RecallRecordsResponse.Partition),
)
INSPECT_RECORDS = Items(
    "partitions",
    "partitions",
    leader.InspectRecordsResponse,
    _by_id(AclOperation.DESCRIBE),
    _partition(leader.InspectRecordsResponse.Partition),
    _group_of(AclOperation.DESCRIBE),
)


def check_inspect_state(access: Access, request: Any) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED."""
    access.require(AclOperation.DESCRIBE, GROUP, request.group_id)
    error = access.id_denial(AclOperation.DESCRIBE, request.topic_id)
    if error is not None:
        raise error


def check_list_failed(access: Access, request: Any) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED."""
    access.require(AclOperation.DESCRIBE, GROUP, request.group_id)
    access.require(AclOperation.DESCRIBE, TOPIC, request.topic)


def check_retry_failed(access: Access, request: Any) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED."""
    access.require(AclOperation.READ, GROUP, request.group_id)
    access.require(AclOperation.WRITE, TOPIC, request.topic)


# Groups

_DESCRIBED_GROUPS = Items(
    "group_ids",
    "groups",
    group.ShareGroupDescribeResponse,
    _group_id(AclOperation.DESCRIBE),
    lambda group_id, error: group.ShareGroupDescribeResponse.DescribedGroup(
        group_id=group_id, **refusal(error)
    ),
)
_DESCRIBED_CONSUMER_GROUPS = Items(
    "group_ids",
    "groups",
    admin_pb2.DescribeConsumerGroupsResponse,
    _group_id(AclOperation.DESCRIBE),
    lambda group_id, error: admin_pb2.DescribeConsumerGroupsResponse.Group(
        group_id=group_id, **refusal(error)
    ),
)
DELETE_GROUPS = Items(
    "group_ids",
    "results",
    group.DeleteGroupsResponse,
    _group_id(AclOperation.DELETE),
    lambda group_id, error: group.DeleteGroupsResponse.DeletableGroupResult(
        group_id=group_id, **refusal(error)
    ),
)
_DESCRIBED_OFFSETS = Items(
    "groups",
    "groups",
    group.DescribeShareGroupOffsetsResponse,
    lambda access, item: access.denial(AclOperation.DESCRIBE, GROUP, item.group_id),
    lambda item, error: group.DescribeShareGroupOffsetsResponse.Group(
        group_id=item.group_id, **refusal(error)
    ),
)
ALTER_OFFSETS = Items(
    "topics",
    "responses",
    group.AlterShareGroupOffsetsResponse,
    lambda access, item: access.denial(AclOperation.READ, TOPIC, item.topic_name),
    lambda item, error: group.AlterShareGroupOffsetsResponse.Topic(
        topic_name=item.topic_name,
        partitions=[
            group.AlterShareGroupOffsetsResponse.Partition(partition=part.partition, **refusal(error))
            for part in item.partitions
        ],
    ),
    _group_of(AclOperation.READ),
)
DELETE_OFFSETS = Items(
    "topic_names",
    "responses",
    group.DeleteShareGroupOffsetsResponse,
    lambda access, name: access.denial(AclOperation.READ, TOPIC, name),
    lambda name, error: group.DeleteShareGroupOffsetsResponse.Topic(topic_name=name, **refusal(error)),
    _group_of(AclOperation.DELETE),
)


async def list_groups(
    function: Function[Any, Any], access: Access, request: Any, deadline: Deadline
) -> group.ListGroupsResponse:
    """Lists the groups that the caller may describe; all of them with DESCRIBE on the cluster."""
    response: group.ListGroupsResponse = await function(access.gateway, request, deadline)
    if not access.allows_on_cluster(AclOperation.DESCRIBE):
        _keep(response.groups, lambda one: access.allows(AclOperation.DESCRIBE, GROUP, one.group_id))
    return response


async def describe_groups(
    function: Function[Any, Any], access: Access, request: Any, deadline: Deadline
) -> group.ShareGroupDescribeResponse:
    """Describes groups, without those that are assigned a topic that the caller may not describe.

    Adds what the caller may do to each group, if the request includes that.
    """
    response: group.ShareGroupDescribeResponse = await _DESCRIBED_GROUPS(function, access, request, deadline)
    for described in response.groups:
        assigned = {
            part.topic_name for member in described.members for part in member.assignment.topic_partitions
        }
        errors = [access.denial(AclOperation.DESCRIBE, TOPIC, name) for name in sorted(assigned)]
        error = next(filter(None, errors), None)
        if error is not None:
            described.CopyFrom(
                group.ShareGroupDescribeResponse.DescribedGroup(group_id=described.group_id, **refusal(error))
            )
        elif request.include_authorized_operations and not described.error_code:
            described.authorized_operations = access.operations(Resource(GROUP, described.group_id))
    return response


async def describe_consumer_groups(
    function: Function[Any, Any], access: Access, request: Any, deadline: Deadline
) -> admin_pb2.DescribeConsumerGroupsResponse:
    """Describes consumer groups, without the offsets of topics that the caller may not describe."""
    response: admin_pb2.DescribeConsumerGroupsResponse = await _DESCRIBED_CONSUMER_GROUPS(
        function, access, request, deadline
    )
    for described in response.groups:
        _keep(described.offsets, lambda one: access.allows(AclOperation.DESCRIBE, TOPIC, one.topic_name))
    return response


async def describe_offsets(
    function: Function[Any, Any],
    access: Access,
    request: group.DescribeShareGroupOffsetsRequest,
    deadline: Deadline,
) -> group.DescribeShareGroupOffsetsResponse:
    """Describes offsets of topics that the caller may describe; of all topics, others are left out."""

    def visible(topic: Any) -> bool:
        return access.allows(AclOperation.DESCRIBE, TOPIC, topic.topic_name)

    remaining = group.DescribeShareGroupOffsetsRequest()
    remaining.CopyFrom(request)
    for one in remaining.groups:
        _keep(one.topics, visible)
    response: group.DescribeShareGroupOffsetsResponse = await _DESCRIBED_OFFSETS(
        function, access, remaining, deadline
    )
    denied = {
        one.group_id: [topic for topic in one.topics if not visible(topic)]
        for one in request.groups
        if not one.all_topics
    }
    for described in response.groups:
        _keep(described.topics, visible)
        for topic in () if described.error_code else denied.get(described.group_id, ()):
            _add_denied(described, topic, access.denial(AclOperation.DESCRIBE, TOPIC, topic.topic_name))
    return response


def _add_denied(described: Any, topic: Any, error: KafkaError | None) -> None:
    rows = [
        group.DescribeShareGroupOffsetsResponse.Partition(partition=index, **refusal(error))
        for index in topic.partitions
    ]
    described.topics.add(topic_name=topic.topic_name, partitions=rows)


def _keep(messages: Any, keeps: Callable[[Any], bool]) -> None:
    """Removes the messages of a repeated field that are not to be kept."""
    kept = [message for message in messages if keeps(message)]
    if len(kept) < len(messages):
        copies = [type(message).FromString(message.SerializeToString()) for message in kept]
        del messages[:]
        messages.extend(copies)
