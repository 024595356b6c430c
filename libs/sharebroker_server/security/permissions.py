"""The permission that each RPC requires (Kafka: the operations that `KafkaApis` authorizes).

One row per RPC of every proto, and of gRPC's own services. An RPC without a row requires CLUSTER_ACTION.
Processes of the cluster prove that by the cluster secret or a certificate (`ClusterAccess`). For public RPCs
the gateway asks the authorizer; a test compares what it asks with the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from sharebroker_server.security.acl import AclOperation, AclResourceType


class Right(NamedTuple):
    """An operation on resources of one type."""

    operation: AclOperation
    type: AclResourceType

    def __str__(self) -> str:
        return f"{self.operation.name} {self.type.name}"


class Need(NamedTuple):
    """A caller needs one of the rights; `when` names the requests that need it, "" stands for all."""

    any_of: tuple[Right, ...]
    when: str = ""

    def __str__(self) -> str:
        text = " or ".join(map(str, self.any_of))
        return f"{text} ({self.when})" if self.when else text


@dataclass(frozen=True, slots=True)
class Permission:
    """What a caller must be allowed to do. Only processes of the cluster may call an `internal` RPC.

    Kafka: CLUSTER_ACTION on the resource CLUSTER.
    """

    needs: tuple[Need, ...] = ()
    internal: bool = False

    def __str__(self) -> str:
        return ", ".join(map(str, self.needs)) or "nothing"


def _needs(*needs: Right | Need) -> Permission:
    return Permission(tuple(Need((need,)) if isinstance(need, Right) else need for need in needs))


NONE: Final = Permission()
CLUSTER_ACTION: Final = Permission(internal=True)

_READ_TOPIC: Final = Right(AclOperation.READ, AclResourceType.TOPIC)
_WRITE_TOPIC: Final = Right(AclOperation.WRITE, AclResourceType.TOPIC)
_DESCRIBE_TOPIC: Final = Right(AclOperation.DESCRIBE, AclResourceType.TOPIC)
_DELETE_TOPIC: Final = Right(AclOperation.DELETE, AclResourceType.TOPIC)
_READ_GROUP: Final = Right(AclOperation.READ, AclResourceType.GROUP)
_DESCRIBE_GROUP: Final = Right(AclOperation.DESCRIBE, AclResourceType.GROUP)
_DELETE_GROUP: Final = Right(AclOperation.DELETE, AclResourceType.GROUP)
_WRITE_TRANSACTION: Final = Right(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
_DESCRIBE_CLUSTER: Final = Right(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
_DELETE_CLUSTER: Final = Right(AclOperation.DELETE, AclResourceType.CLUSTER)
_ALTER_CLUSTER: Final = Right(AclOperation.ALTER, AclResourceType.CLUSTER)

_CREATE: Final = (
    Right(AclOperation.CREATE, AclResourceType.CLUSTER),
    Right(AclOperation.CREATE, AclResourceType.TOPIC),
)
_AUTO_CREATES: Final = Need(_CREATE, "if it creates the topic")


def _configs(operation: AclOperation) -> Permission:
    """Returns the permission to read or change configs, which depends on the resources in the request."""
    resources = {
        AclResourceType.TOPIC: "for a topic",
        AclResourceType.GROUP: "for a group",
        AclResourceType.CLUSTER: "for brokers",
    }
    return Permission(tuple(Need((Right(operation, kind),), when) for kind, when in resources.items()))


_PLAN: Final = _needs(_READ_GROUP, _READ_TOPIC)
_KEDA: Final = _needs(_DESCRIBE_GROUP, Need((_DESCRIBE_TOPIC,), "if the trigger names a topic"))

_SERVICES: Final[Mapping[str, Mapping[str, Permission]]] = {
    "sharebroker.gateway.v1.ShareService": {
        "Consume": _needs(_READ_GROUP, _READ_TOPIC),
        "Acquire": _needs(_READ_GROUP, _READ_TOPIC),
        "Acknowledge": _needs(_READ_GROUP, _READ_TOPIC),
        "ShareGroupHeartbeat": _needs(_READ_GROUP, _DESCRIBE_TOPIC),
        "ShareFetch": _needs(_READ_GROUP, _READ_TOPIC),
        "ShareAcknowledge": _needs(_READ_GROUP, _READ_TOPIC),
    },
    "sharebroker.gateway.v1.ProduceService": {
        "Publish": _needs(_WRITE_TOPIC, _AUTO_CREATES),
        "Produce": _needs(_WRITE_TOPIC, _AUTO_CREATES, Need((_WRITE_TRANSACTION,), "in a transaction")),
        "ProduceStream": _needs(_WRITE_TOPIC, _AUTO_CREATES, Need((_WRITE_TRANSACTION,), "in a transaction")),
        "InitProducerId": _needs(
            Need((_WRITE_TRANSACTION,), "with a transactional id"),
            Need(
                (Right(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER), _WRITE_TOPIC),
                "without a transactional id",
            ),
        ),
        "EndTxn": _needs(_WRITE_TRANSACTION),
    },
    "sharebroker.gateway.v1.PlanService": {
        "OpenSession": _needs(_READ_GROUP),
        "Plan": _PLAN,
        "Renew": _PLAN,
        "Stage": _PLAN,
        "Commit": _PLAN,
        "Release": _PLAN,
        "ReadRange": _needs(_READ_TOPIC),
    },
    "sharebroker.gateway.v1.AdminService": {
        "Metadata": _needs(_DESCRIBE_TOPIC, _AUTO_CREATES),
        "FindCoordinator": _needs(
            Need((_DESCRIBE_GROUP,), "for a group"),
            Need((Right(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER),), "for share state"),
        ),
        "DescribeConfigs": _configs(AclOperation.DESCRIBE_CONFIGS),
        "CreateTopics": _needs(Need(_CREATE)),
        "DeleteTopics": _needs(
            Need((_DELETE_CLUSTER, _DESCRIBE_TOPIC)), Need((_DELETE_CLUSTER, _DELETE_TOPIC))
        ),
        "CreatePartitions": _needs(Right(AclOperation.ALTER, AclResourceType.TOPIC)),
        "IncrementalAlterConfigs": _configs(AclOperation.ALTER_CONFIGS),
        "ListOffsets": _needs(_DESCRIBE_TOPIC, Need((_DESCRIBE_GROUP,), "to count the locks of a group")),
        "DescribeUserScramCredentials": _needs(_DESCRIBE_CLUSTER),
        "AlterUserScramCredentials": _needs(_ALTER_CLUSTER),
        "DescribeAcls": _needs(_DESCRIBE_CLUSTER),
        "CreateAcls": _needs(_ALTER_CLUSTER),
        "DeleteAcls": _needs(_ALTER_CLUSTER),
        "DescribeClientQuotas": _needs(Right(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)),
        "AlterClientQuotas": _needs(Right(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER)),
        "DescribeFeatures": NONE,
        "UpdateFeatures": _needs(_ALTER_CLUSTER),
        "DeleteRecords": _needs(_DELETE_TOPIC),
        "DescribeLogs": _needs(_DESCRIBE_TOPIC),
        "RecallRecords": _needs(_WRITE_TOPIC),
        "ListGroups": _needs(Need((_DESCRIBE_CLUSTER, _DESCRIBE_GROUP))),
        "ShareGroupDescribe": _needs(_DESCRIBE_GROUP, Need((_DESCRIBE_TOPIC,), "for each assigned topic")),
        "DescribeConsumerGroups": _needs(_DESCRIBE_GROUP),
        "DeleteGroups": _needs(_DELETE_GROUP),
        "DescribeShareGroupOffsets": _needs(_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        "AlterShareGroupOffsets": _needs(_READ_GROUP, _READ_TOPIC),
        "DeleteShareGroupOffsets": _needs(_DELETE_GROUP, _READ_TOPIC),
        "InspectRecords": _needs(_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        "InspectShareGroupState": _needs(_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        "ListFailedRecords": _needs(_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        "RetryFailedRecords": _needs(_READ_GROUP, _WRITE_TOPIC),
    },
    "sharebroker.gateway.v1.DeadLetterService": {
        "ListDeadLetters": _needs(_READ_TOPIC),
        "SummarizeDeadLetters": _needs(_READ_TOPIC),
        "GetDeadLetter": _needs(_READ_TOPIC),
        "RedriveDeadLetters": _needs(
            _READ_TOPIC, Need((_WRITE_TOPIC,), "for each target"), Need((_READ_GROUP,), "for each group")
        ),
        "DiscardDeadLetters": _needs(_READ_TOPIC, _DELETE_TOPIC),
    },
    "externalscaler.ExternalScaler": {
        "IsActive": _KEDA,
        "StreamIsActive": _KEDA,
        "GetMetricSpec": _KEDA,
        "GetMetrics": _KEDA,
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
        "CreateAcls": CLUSTER_ACTION,
        "DeleteAcls": CLUSTER_ACTION,
        "AlterClientQuotas": CLUSTER_ACTION,
        "UpdateFeatures": CLUSTER_ACTION,
    },
    "sharebroker.share_partition_leader.v1.SharePartitionLeaderService": {
        "Deliver": CLUSTER_ACTION,
        "AcquireRecords": CLUSTER_ACTION,
        "AwaitRecords": CLUSTER_ACTION,
        "AcknowledgeRecords": CLUSTER_ACTION,
        "ReconcileRecords": CLUSTER_ACTION,
        "ReleaseMember": CLUSTER_ACTION,
        "Produce": CLUSTER_ACTION,
        "AppendDeadLetters": CLUSTER_ACTION,
        "Fetch": CLUSTER_ACTION,
        "ListOffsets": CLUSTER_ACTION,
        "DeleteRecords": CLUSTER_ACTION,
        "RecallRecords": CLUSTER_ACTION,
        "RetryRecords": CLUSTER_ACTION,
        "RedriveRecords": CLUSTER_ACTION,
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
        "ReadFailedRecords": CLUSTER_ACTION,
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
