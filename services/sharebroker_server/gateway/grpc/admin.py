"""The servicer of AdminService, made from the functions of `gateway.admin`."""

from __future__ import annotations

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.gateway.v1 import admin_pb2
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceServicer
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.admin import (
    acls,
    cluster,
    configs,
    consumer_groups,
    failed_records,
    features,
    groups,
    partitions,
    quotas,
    retry,
    topics,
    users,
)
from sharebroker_server.gateway.authorization import GROUP, every_operation
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc import admin_rights as rights
from sharebroker_server.gateway.grpc.servicers import Mutation, Servicer, checked, rpc


async def _find_coordinator(
    gateway: Gateway, request: admin_pb2.FindCoordinatorRequest, _: Deadline
) -> admin_pb2.FindCoordinatorResponse:
    return await cluster.find_coordinator(gateway, request)


async def _describe_configs(
    gateway: Gateway, request: admin_pb2.DescribeConfigsRequest, _: Deadline
) -> admin_pb2.DescribeConfigsResponse:
    return await configs.describe_configs(gateway, request)


async def _describe_groups(
    gateway: Gateway, request: group.ShareGroupDescribeRequest, deadline: Deadline
) -> group.ShareGroupDescribeResponse:
    """Describes groups, with all operations as authorized ones; access control removes some."""
    response = await groups.describe_groups(gateway, request, deadline)
    for described in response.groups:
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = every_operation(GROUP)
    return response


async def _describe_users(
    gateway: Gateway, request: admin_pb2.DescribeUserScramCredentialsRequest, _: Deadline
) -> admin_pb2.DescribeUserScramCredentialsResponse:
    return await users.describe_users(gateway, request)


async def _describe_quotas(
    gateway: Gateway, request: admin_pb2.DescribeClientQuotasRequest, _: Deadline
) -> admin_pb2.DescribeClientQuotasResponse:
    return quotas.describe_quotas(gateway, request)


async def _describe_features(
    gateway: Gateway, _: admin_pb2.DescribeFeaturesRequest, __: Deadline
) -> admin_pb2.DescribeFeaturesResponse:
    return features.describe_features(gateway)


def _created(gateway: Gateway, request: cluster_pb2.CreateTopicsRequest) -> list[int]:
    """Returns the number of partitions of each topic that a request creates."""
    if request.validate_only:
        return []
    default = gateway.catalog.broker.num_partitions
    return [topic.num_partitions if topic.num_partitions > 0 else default for topic in request.topics]


def _deleted(gateway: Gateway, request: cluster_pb2.DeleteTopicsRequest) -> list[int]:
    """Returns the number of partitions of each topic that a request deletes."""
    catalog = gateway.catalog
    found = (
        catalog.topic(topic.name) if topic.name else catalog.topic_by_id(topic.topic_id)
        for topic in request.topics
    )
    return [0 if topic is None else topic.partitions for topic in found]


def _added(gateway: Gateway, request: cluster_pb2.CreatePartitionsRequest) -> list[int]:
    """Returns the number of partitions that a request adds to each topic."""
    if request.validate_only:
        return []
    existing = ((topic.count, gateway.catalog.topic(topic.name)) for topic in request.topics)
    return [0 if topic is None else max(count - topic.partitions, 0) for count, topic in existing]


class AdminServicer(Servicer, AdminServiceServicer):
    """Translates requests to the functions of `gateway.admin`."""

    Metadata = rpc(cluster.metadata, rights.metadata)
    FindCoordinator = rpc(_find_coordinator, rights.find_coordinator)
    DescribeConfigs = rpc(_describe_configs, rights.DESCRIBE_CONFIGS)
    CreateTopics = rpc(topics.create_topics, rights.CREATE_TOPICS, mutation=Mutation(_created, "topics"))
    DeleteTopics = rpc(topics.delete_topics, rights.DELETE_TOPICS, mutation=Mutation(_deleted, "topics"))
    CreatePartitions = rpc(
        topics.create_partitions, rights.CREATE_PARTITIONS, mutation=Mutation(_added, "results")
    )
    IncrementalAlterConfigs = rpc(configs.alter_configs, rights.ALTER_CONFIGS)
    ListOffsets = rpc(partitions.list_offsets, rights.LIST_OFFSETS)
    DeleteRecords = rpc(partitions.delete_records, rights.DELETE_RECORDS)
    DescribeLogs = rpc(partitions.describe_requested_logs, rights.DESCRIBE_LOGS)
    RecallRecords = rpc(partitions.recall_records, rights.RECALL_RECORDS)
    ListGroups = rpc(groups.list_groups, rights.list_groups)
    ShareGroupDescribe = rpc(_describe_groups, rights.describe_groups)
    DescribeConsumerGroups = rpc(consumer_groups.describe, rights.describe_consumer_groups)
    DeleteGroups = rpc(groups.delete_groups, rights.DELETE_GROUPS)
    DescribeShareGroupOffsets = rpc(groups.describe_offsets, rights.describe_offsets)
    AlterShareGroupOffsets = rpc(groups.alter_offsets, rights.ALTER_OFFSETS)
    DeleteShareGroupOffsets = rpc(groups.delete_offsets, rights.DELETE_OFFSETS)
    InspectRecords = rpc(partitions.inspect_records, rights.INSPECT_RECORDS)
    InspectShareGroupState = rpc(partitions.inspect_state, checked(rights.check_inspect_state))
    ListFailedRecords = rpc(failed_records.list_failed, checked(rights.check_list_failed))
    RetryFailedRecords = rpc(retry.retry_failed, checked(rights.check_retry_failed))
    DescribeUserScramCredentials = rpc(_describe_users, checked(rights.check_describe_cluster))
    AlterUserScramCredentials = rpc(users.alter_users, checked(rights.check_alter_cluster))
    DescribeAcls = rpc(acls.describe_acls, checked(rights.check_describe_cluster))
    CreateAcls = rpc(acls.create_acls, checked(rights.check_alter_cluster))
    DeleteAcls = rpc(acls.delete_acls, checked(rights.check_alter_cluster))
    DescribeClientQuotas = rpc(_describe_quotas, checked(rights.check_describe_quotas))
    AlterClientQuotas = rpc(quotas.alter_quotas, checked(rights.check_alter_quotas))
    DescribeFeatures = rpc(_describe_features, checked(rights.permit_all))
    UpdateFeatures = rpc(features.update_features, checked(rights.check_alter_cluster))
