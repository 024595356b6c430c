"""Serves AdminService."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceServicer
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
from sharebroker_server.gateway.grpc.rpc import GatewayServicer, rpc


class AdminServicer(GatewayServicer, AdminServiceServicer):
    """Translates requests to the functions of `gateway.admin`."""

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

    Metadata = rpc(metadata)
    CreateTopics = rpc(create_topics)
    DeleteTopics = rpc(delete_topics)
    CreatePartitions = rpc(create_partitions)
    IncrementalAlterConfigs = rpc(alter_configs)
    ListOffsets = rpc(list_offsets)
    DeleteRecords = rpc(delete_records)
    ListGroups = rpc(list_groups)
    ShareGroupDescribe = rpc(describe_groups)
    DeleteGroups = rpc(delete_groups)
    DescribeShareGroupOffsets = rpc(describe_offsets)
    AlterShareGroupOffsets = rpc(alter_offsets)
    DeleteShareGroupOffsets = rpc(delete_offsets)
    InspectRecords = rpc(inspect_records)
    InspectShareGroupState = rpc(inspect_state)
