"""The permission that each RPC requires (Kafka: the operations that `KafkaApis` authorizes).

One row per RPC of every proto, and of gRPC's own services. An RPC without a row requires CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Permission(Enum):
    """What a caller must prove before a server reads its request."""

    NONE = "none"
    """Any client may call the RPC."""

    CLUSTER_ACTION = "cluster_action"
    """Only processes of the cluster may call the RPC (Kafka: CLUSTER_ACTION on the resource CLUSTER)."""


NONE: Final = Permission.NONE
CLUSTER_ACTION: Final = Permission.CLUSTER_ACTION

_SERVICES: Final[Mapping[str, Mapping[str, Permission]]] = {
    "sharebroker.gateway.v1.ShareService": {
        "Consume": NONE,
        "Acquire": NONE,
        "Acknowledge": NONE,
        "ShareGroupHeartbeat": NONE,
        "ShareFetch": NONE,
        "ShareAcknowledge": NONE,
    },
    "sharebroker.gateway.v1.ProduceService": {
        "Publish": NONE,
        "Produce": NONE,
        "ProduceStream": NONE,
        "InitProducerId": NONE,
        "EndTxn": NONE,
    },
    "sharebroker.gateway.v1.PlanService": {
        "OpenSession": NONE,
        "Plan": NONE,
        "Renew": NONE,
        "Stage": NONE,
        "Commit": NONE,
        "Release": NONE,
        "ReadRange": NONE,
    },
    "sharebroker.gateway.v1.AdminService": {
        "Metadata": NONE,
        "FindCoordinator": NONE,
        "DescribeConfigs": NONE,
        "CreateTopics": NONE,
        "DeleteTopics": NONE,
        "CreatePartitions": NONE,
        "IncrementalAlterConfigs": NONE,
        "ListOffsets": NONE,
        "DescribeUserScramCredentials": NONE,
        "AlterUserScramCredentials": NONE,
        "DeleteRecords": NONE,
        "ListGroups": NONE,
        "ShareGroupDescribe": NONE,
        "DeleteGroups": NONE,
        "DescribeShareGroupOffsets": NONE,
        "AlterShareGroupOffsets": NONE,
        "DeleteShareGroupOffsets": NONE,
        "InspectRecords": NONE,
        "InspectShareGroupState": NONE,
    },
    "externalscaler.ExternalScaler": {
        "IsActive": NONE,
        "StreamIsActive": NONE,
        "GetMetricSpec": NONE,
        "GetMetrics": NONE,
    },
    "sharebroker.group_coordinator.v1.GroupCoordinatorService": {
        "ShareGroupHeartbeat": CLUSTER_ACTION,
        "ShareGroupDescribe": CLUSTER_ACTION,
        "ListGroups": CLUSTER_ACTION,
        "DeleteGroups": CLUSTER_ACTION,
        "DescribeShareGroupOffsets": CLUSTER_ACTION,
        "AlterShareGroupOffsets": CLUSTER_ACTION,
        "DeleteShareGroupOffsets": CLUSTER_ACTION,
        "JoinGroup": CLUSTER_ACTION,
        "SyncGroup": CLUSTER_ACTION,
        "Heartbeat": CLUSTER_ACTION,
        "LeaveGroup": CLUSTER_ACTION,
        "OffsetCommit": CLUSTER_ACTION,
        "TxnOffsetCommit": CLUSTER_ACTION,
        "CompleteTransaction": CLUSTER_ACTION,
        "OffsetFetch": CLUSTER_ACTION,
        "OffsetDelete": CLUSTER_ACTION,
        "ConsumerGroupDescribe": CLUSTER_ACTION,
        "FetchGroupLog": CLUSTER_ACTION,
        "FindGroupLogOffset": CLUSTER_ACTION,
    },
    "sharebroker.transaction_coordinator.v1.TransactionCoordinatorService": {
        "InitProducerId": CLUSTER_ACTION,
        "AddPartitionsToTxn": CLUSTER_ACTION,
        "EndTxn": CLUSTER_ACTION,
        "DescribeTransactions": CLUSTER_ACTION,
        "ListTransactions": CLUSTER_ACTION,
        "StageVerdicts": CLUSTER_ACTION,
        "ReadStagedVerdicts": CLUSTER_ACTION,
    },
    "sharebroker.cluster.v1.ClusterService": {
        "CreateTopics": CLUSTER_ACTION,
        "DeleteTopics": CLUSTER_ACTION,
        "CreatePartitions": CLUSTER_ACTION,
        "IncrementalAlterConfigs": CLUSTER_ACTION,
        "AlterUserScramCredentials": CLUSTER_ACTION,
    },
    "sharebroker.share_partition_leader.v1.SharePartitionLeaderService": {
        "Deliver": CLUSTER_ACTION,
        "AcquireRecords": CLUSTER_ACTION,
        "AwaitRecords": CLUSTER_ACTION,
        "AcknowledgeRecords": CLUSTER_ACTION,
        "ReconcileRecords": CLUSTER_ACTION,
        "ReleaseMember": CLUSTER_ACTION,
        "Produce": CLUSTER_ACTION,
        "Fetch": CLUSTER_ACTION,
        "ListOffsets": CLUSTER_ACTION,
        "DeleteRecords": CLUSTER_ACTION,
        "WriteTxnMarkers": CLUSTER_ACTION,
        "DescribeProducers": CLUSTER_ACTION,
        "DescribeLogs": CLUSTER_ACTION,
        "InspectRecords": CLUSTER_ACTION,
    },
    "sharebroker.share_coordinator.v1.ShareCoordinatorService": {
        "InitializeShareGroupState": CLUSTER_ACTION,
        "ReadShareGroupState": CLUSTER_ACTION,
        "WriteShareGroupState": CLUSTER_ACTION,
        "DeleteShareGroupState": CLUSTER_ACTION,
        "ReadShareGroupStateSummary": CLUSTER_ACTION,
        "InspectShareGroupState": CLUSTER_ACTION,
        "DeleteTopicState": CLUSTER_ACTION,
        "FetchShareGroupState": CLUSTER_ACTION,
        "FindShareGroupStateOffset": CLUSTER_ACTION,
    },
    "grpc.health.v1.Health": {
        "Check": NONE,
        "List": NONE,
        "Watch": NONE,
    },
    "grpc.reflection.v1alpha.ServerReflection": {
        "ServerReflectionInfo": NONE,
    },
}

PERMISSIONS: Final[Mapping[str, Permission]] = MappingProxyType(
    {
        f"/{service}/{method}": permission
        for service, methods in _SERVICES.items()
        for method, permission in methods.items()
    }
)
"""The permission of each RPC, by /package.Service/Method."""


def required(method: str) -> Permission:
    """Returns the permission that a method (/package.Service/Method) requires."""
    return PERMISSIONS.get(method, CLUSTER_ACTION)
