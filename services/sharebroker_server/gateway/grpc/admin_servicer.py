"""Serves AdminService."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceServicer
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.admin.cluster import (
    delete_records,
    describe_configs,
    find_coordinator,
    inspect_records,
    inspect_state,
    list_offsets,
    metadata,
)
from sharebroker_server.gateway.admin.groups import (
    alter_offsets,
    delete_groups,
    delete_offsets,
    describe_groups,
    describe_offsets,
    list_groups,
)
from sharebroker_server.gateway.admin.topics import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
)
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.context import Gateway


class AdminServicer(AdminServiceServicer):
    """Translates requests to the functions of `gateway.admin`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @override
    async def FindCoordinator(
        self, request: pb.FindCoordinatorRequest, context: Any
    ) -> pb.FindCoordinatorResponse:
        return await find_coordinator(self._gateway, request)

    @override
    async def DescribeConfigs(
        self, request: pb.DescribeConfigsRequest, context: Any
    ) -> pb.DescribeConfigsResponse:
        return describe_configs(self._gateway, request)

    @override
    async def Metadata(self, request: pb.MetadataRequest, context: Any) -> pb.MetadataResponse:
        return await metadata(self._gateway, request, Deadline.of(context))

    @override
    async def CreateTopics(
        self, request: cluster.CreateTopicsRequest, context: Any
    ) -> cluster.CreateTopicsResponse:
        return await create_topics(self._gateway, request, Deadline.of(context))

    @override
    async def DeleteTopics(
        self, request: cluster.DeleteTopicsRequest, context: Any
    ) -> cluster.DeleteTopicsResponse:
        return await delete_topics(self._gateway, request, Deadline.of(context))

    @override
    async def CreatePartitions(
        self, request: cluster.CreatePartitionsRequest, context: Any
    ) -> cluster.CreatePartitionsResponse:
        return await create_partitions(self._gateway, request, Deadline.of(context))

    @override
    async def IncrementalAlterConfigs(
        self, request: cluster.IncrementalAlterConfigsRequest, context: Any
    ) -> cluster.IncrementalAlterConfigsResponse:
        return await alter_configs(self._gateway, request, Deadline.of(context))

    @override
    async def ListOffsets(
        self, request: leader.ListOffsetsRequest, context: Any
    ) -> leader.ListOffsetsResponse:
        return await list_offsets(self._gateway, request, Deadline.of(context))

    @override
    async def DeleteRecords(
        self, request: leader.DeleteRecordsRequest, context: Any
    ) -> leader.DeleteRecordsResponse:
        return await delete_records(self._gateway, request, Deadline.of(context))

    @override
    async def ListGroups(self, request: group.ListGroupsRequest, context: Any) -> group.ListGroupsResponse:
        return await list_groups(self._gateway, request, Deadline.of(context))

    @override
    async def ShareGroupDescribe(
        self, request: group.ShareGroupDescribeRequest, context: Any
    ) -> group.ShareGroupDescribeResponse:
        return await describe_groups(self._gateway, request, Deadline.of(context))

    @override
    async def DeleteGroups(
        self, request: group.DeleteGroupsRequest, context: Any
    ) -> group.DeleteGroupsResponse:
        return await delete_groups(self._gateway, request, Deadline.of(context))

    @override
    async def DescribeShareGroupOffsets(
        self, request: group.DescribeShareGroupOffsetsRequest, context: Any
    ) -> group.DescribeShareGroupOffsetsResponse:
        return await describe_offsets(self._gateway, request, Deadline.of(context))

    @override
    async def AlterShareGroupOffsets(
        self, request: group.AlterShareGroupOffsetsRequest, context: Any
    ) -> group.AlterShareGroupOffsetsResponse:
        return await alter_offsets(self._gateway, request, Deadline.of(context))

    @override
    async def DeleteShareGroupOffsets(
        self, request: group.DeleteShareGroupOffsetsRequest, context: Any
    ) -> group.DeleteShareGroupOffsetsResponse:
        return await delete_offsets(self._gateway, request, Deadline.of(context))

    @override
    async def InspectRecords(
        self, request: leader.InspectRecordsRequest, context: Any
    ) -> leader.InspectRecordsResponse:
        return await inspect_records(self._gateway, request, Deadline.of(context))

    @override
    async def InspectShareGroupState(
        self, request: state.InspectShareGroupStateRequest, context: Any
    ) -> state.InspectShareGroupStateResponse:
        return await inspect_state(self._gateway, request, Deadline.of(context))
