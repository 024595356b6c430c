"""Each public RPC checks exactly the rights of its row in the table of permissions."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from structlog.testing import capture_logs

from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.delivery.v1 import delivery_pb2
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    dead_letters_pb2,
    dead_letters_pb2_grpc,
    plan_pb2,
    plan_pb2_grpc,
    produce_pb2,
    produce_pb2_grpc,
    share_pb2,
    share_pb2_grpc,
)
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.keda import externalscaler_pb2, externalscaler_pb2_grpc
from sharebroker_protocol.rpc_status import from_rpc_error, status_code
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_server.gateway.grpc.services import services
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclResourceType
from sharebroker_server.security.permissions import NONE, PERMISSIONS, Need
from tests.testkit.authorizer import TableAuthorizer
from tests.testkit.tables import each
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC

SECONDS = 10.0
ID = {"topic_id": TOPIC.topic_id, "partition": 0}
SESSION = plan_pb2.PlanSession(group_id="g", session_id="s", epoch=1)
RANGE = plan_pb2.PlanRange(topic="flights", partition=0, first_offset=0, last_offset=1)
VERDICT = plan_pb2.PlanVerdict(range=RANGE, type=1)  # type: ignore[arg-type]  # ACCEPT
BATCH = produce_pb2.ProduceRequest.PartitionData(index=0, records=b"batch")
BROKERS, TOPICS, GROUPS = 4, 2, 32


def produced(topic: str, transactional_id: str = "") -> produce_pb2.ProduceRequest:
    data = produce_pb2.ProduceRequest.TopicData(name=topic, partition_data=[BATCH])
    return produce_pb2.ProduceRequest(topic_data=[data], transactional_id=transactional_id)


def streamed(topic: str, transactional_id: str = "") -> produce_pb2.ProduceStreamRequest:
    return produce_pb2.ProduceStreamRequest(id=1, produce=produced(topic, transactional_id))


def configs(message: Any, number: int, name: str) -> Any:
    return message(resources=[message.Resource(resource_type=number, resource_name=name)])


def trigger(topic: str = "") -> externalscaler_pb2.ScaledObjectRef:
    return externalscaler_pb2.ScaledObjectRef(scalerMetadata={"group": "g", "topic": topic})


TRIGGERS = {"": trigger(), "if the trigger names a topic": trigger("flights")}

ALTER = cluster_pb2.IncrementalAlterConfigsRequest
PUBLISHED = [produce_pb2.PublishRecord(text="x")]
OFFSETS = group.DescribeShareGroupOffsetsRequest
ALTERED = group.AlterShareGroupOffsetsRequest
LETTERS = dead_letters_pb2.DeadLetterFilter(group_id="g", source_topic="flights")
REDRIVE = dead_letters_pb2.RedriveDeadLettersRequest(topic="flights", filter=LETTERS)

REQUESTS: Mapping[str, Mapping[str, Message]] = {
    "Consume": {
        "": share_pb2.ConsumeRequest(
            subscribe=share_pb2.ConsumeRequest.Subscribe(group_id="g", topics=["flights"])
        )
    },
    "Acquire": {"": share_pb2.AcquireRequest(group_id="g", topics=["flights"])},
    "Acknowledge": {
        "": share_pb2.AcknowledgeRequest(
            group_id="g",
            member_id="m",
            acknowledgements=[share_pb2.AcknowledgeRequest.Decision(topic="flights", type=1)],  # type: ignore[arg-type]
        )
    },
    "ShareGroupHeartbeat": {
        "": group.ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", subscribed_topic_names=group.TopicNames(names=["flights"])
        )
    },
    "Publish": {
        "": produce_pb2.PublishRequest(topic="flights", records=PUBLISHED),
        "if it creates the topic": produce_pb2.PublishRequest(topic="new", records=PUBLISHED),
    },
    "Produce": {
        "": produced("flights"),
        "if it creates the topic": produced("new"),
        "in a transaction": produced("flights", "t"),
    },
    "ProduceStream": {
        "": streamed("flights"),
        "if it creates the topic": streamed("new"),
        "in a transaction": streamed("flights", "t"),
    },
    "InitProducerId": {
        "with a transactional id": transactions.InitProducerIdRequest(transactional_id="t"),
        "without a transactional id": transactions.InitProducerIdRequest(),
    },
    "EndTxn": {"": transactions.EndTxnRequest(transactional_id="t")},
    "OpenSession": {"": plan_pb2.OpenSessionRequest(group_id="g", session_id="s")},
    "Plan": {"": plan_pb2.PlanRequest(session=SESSION, topics=[plan_pb2.PlanRequest.Topic(name="flights")])},
    "Renew": {"": plan_pb2.RenewRequest(session=SESSION, topics=["flights"])},
    "Stage": {"": plan_pb2.StageRequest(session=SESSION, verdicts=[VERDICT])},
    "Commit": {"": plan_pb2.CommitRequest(session=SESSION, commit=[VERDICT])},
    "Release": {"": plan_pb2.ReleaseRequest(session=SESSION, topics=["flights"])},
    "ReadRange": {"": plan_pb2.ReadRangeRequest(range=RANGE)},
    "Metadata": {
        "": admin_pb2.MetadataRequest(topics=["flights"]),
        "if it creates the topic": admin_pb2.MetadataRequest(topics=["new"], allow_auto_topic_creation=True),
    },
    "FindCoordinator": {
        "for a group": admin_pb2.FindCoordinatorRequest(coordinator_keys=["g"]),
        "for share state": admin_pb2.FindCoordinatorRequest(
            key_type=admin_pb2.KEY_TYPE_SHARE, coordinator_keys=[f"g:{TOPIC.topic_id}:0"]
        ),
    },
    "DescribeConfigs": {
        "for a topic": configs(admin_pb2.DescribeConfigsRequest, TOPICS, "flights"),
        "for a group": configs(admin_pb2.DescribeConfigsRequest, GROUPS, "g"),
        "for brokers": configs(admin_pb2.DescribeConfigsRequest, BROKERS, ""),
    },
    "IncrementalAlterConfigs": {
        "for a topic": configs(ALTER, TOPICS, "flights"),
        "for a group": configs(ALTER, GROUPS, "g"),
        "for brokers": configs(ALTER, BROKERS, ""),
    },
    "CreateTopics": {
        "": cluster_pb2.CreateTopicsRequest(topics=[cluster_pb2.CreateTopicsRequest.Topic(name="new")])
    },
    "DeleteTopics": {
        "": cluster_pb2.DeleteTopicsRequest(topics=[cluster_pb2.DeleteTopicsRequest.Topic(name="flights")])
    },
    "CreatePartitions": {
        "": cluster_pb2.CreatePartitionsRequest(
            topics=[cluster_pb2.CreatePartitionsRequest.Topic(name="flights", count=9)]
        )
    },
    "ListOffsets": {
        "": leader.ListOffsetsRequest(partitions=[leader.ListOffsetsRequest.Partition(**ID)]),  # type: ignore[arg-type]
        "to count the locks of a group": leader.ListOffsetsRequest(
            partitions=[leader.ListOffsetsRequest.Partition(**ID, locked_by_group="g")]  # type: ignore[arg-type]
        ),
    },
    "DeleteRecords": {
        "": leader.DeleteRecordsRequest(partitions=[leader.DeleteRecordsRequest.Partition(**ID)])  # type: ignore[arg-type]
    },
    "RecallRecords": {
        "": leader.RecallRecordsRequest(partitions=[leader.RecallRecordsRequest.Partition(**ID)])  # type: ignore[arg-type]
    },
    "DescribeLogs": {"": leader.DescribeLogsRequest(partitions=[delivery_pb2.TopicPartition(**ID)])},  # type: ignore[arg-type]
    "DescribeConsumerGroups": {"": admin_pb2.DescribeConsumerGroupsRequest(group_ids=["g"])},
    "DescribeUserScramCredentials": {"": admin_pb2.DescribeUserScramCredentialsRequest()},
    "AlterUserScramCredentials": {"": cluster_pb2.AlterUserScramCredentialsRequest()},
    "DescribeAcls": {"": admin_pb2.DescribeAclsRequest()},
    "CreateAcls": {"": cluster_pb2.CreateAclsRequest()},
    "DeleteAcls": {"": cluster_pb2.DeleteAclsRequest()},
    "DescribeClientQuotas": {"": admin_pb2.DescribeClientQuotasRequest()},
    "AlterClientQuotas": {"": cluster_pb2.AlterClientQuotasRequest()},
    "DescribeFeatures": {"": admin_pb2.DescribeFeaturesRequest()},
    "UpdateFeatures": {"": cluster_pb2.UpdateFeaturesRequest()},
    "ListGroups": {"": group.ListGroupsRequest()},
    "ShareGroupDescribe": {
        "": group.ShareGroupDescribeRequest(group_ids=["g"]),
        "for each assigned topic": group.ShareGroupDescribeRequest(group_ids=["g"]),
    },
    "DeleteGroups": {"": group.DeleteGroupsRequest(group_ids=["g"])},
    "DescribeShareGroupOffsets": {
        "": OFFSETS(
            groups=[OFFSETS.Group(group_id="g", topics=[OFFSETS.Topic(topic_name="flights", partitions=[0])])]
        )
    },
    "AlterShareGroupOffsets": {
        "": ALTERED(
            group_id="g",
            topics=[ALTERED.Topic(topic_name="flights", partitions=[ALTERED.Partition(partition=0)])],
        )
    },
    "DeleteShareGroupOffsets": {
        "": group.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["flights"])
    },
    "InspectRecords": {
        "": leader.InspectRecordsRequest(
            group_id="g",
            partitions=[leader.InspectRecordsRequest.Partition(**ID)],  # type: ignore[arg-type]
        )
    },
    "InspectShareGroupState": {"": state.InspectShareGroupStateRequest(group_id="g", **ID)},  # type: ignore[arg-type]
    "ListFailedRecords": {"": admin_pb2.ListFailedRecordsRequest(group_id="g", topic="flights")},
    "RetryFailedRecords": {"": admin_pb2.RetryFailedRecordsRequest(group_id="g", topic="flights")},
    "ListDeadLetters": {"": dead_letters_pb2.ListDeadLettersRequest(topic="flights")},
    "SummarizeDeadLetters": {"": dead_letters_pb2.SummarizeDeadLettersRequest(topic="flights")},
    "GetDeadLetter": {"": dead_letters_pb2.GetDeadLetterRequest(topic="flights")},
    "RedriveDeadLetters": {
        "": REDRIVE,
        "for each target": REDRIVE,
        "for each group": REDRIVE,
    },
    "DiscardDeadLetters": {"": dead_letters_pb2.DiscardDeadLettersRequest(topic="flights")},
    "IsActive": TRIGGERS,
    "StreamIsActive": TRIGGERS,
    "GetMetricSpec": TRIGGERS,
    "GetMetrics": {
        when: externalscaler_pb2.GetMetricsRequest(scaledObjectRef=ref) for when, ref in TRIGGERS.items()
    },
}
"""A request of each RPC, for each condition in its row."""

STUBS = {
    "ShareService": share_pb2_grpc.ShareServiceStub,
    "ProduceService": produce_pb2_grpc.ProduceServiceStub,
    "PlanService": plan_pb2_grpc.PlanServiceStub,
    "AdminService": admin_pb2_grpc.AdminServiceStub,
    "DeadLetterService": dead_letters_pb2_grpc.DeadLetterServiceStub,
    "ExternalScaler": externalscaler_pb2_grpc.ExternalScalerStub,
}
IN_SESSIONS = ("ShareFetch", "ShareAcknowledge")
PUBLIC = {
    method: row
    for method, row in PERMISSIONS.items()
    if not row.internal and row != NONE and not method.endswith(IN_SESSIONS)
}


class Groups:
    """A coordinator whose groups have a member with a partition of the topic."""

    async def ListGroups(self, request: group.ListGroupsRequest, context: Any) -> group.ListGroupsResponse:
        listed = group.ListGroupsResponse.ListedGroup(group_id="g")
        return group.ListGroupsResponse(groups=[listed], shards=range(50))

    async def ShareGroupDescribe(
        self, request: group.ShareGroupDescribeRequest, context: Any
    ) -> group.ShareGroupDescribeResponse:
        assigned = group.TopicPartitions(topic_id=TOPIC.topic_id, topic_name="flights", partitions=[0])
        member = group.ShareGroupDescribeResponse.Member(
            member_id="m", assignment=group.Assignment(topic_partitions=[assigned])
        )
        described = group.ShareGroupDescribeResponse.DescribedGroup(group_id="g", members=[member])
        return group.ShareGroupDescribeResponse(groups=[described])

    async def DescribeShareGroupOffsets(self, request: OFFSETS, context: Any) -> Any:
        response = group.DescribeShareGroupOffsetsResponse()
        response.groups.add(group_id=request.groups[0].group_id)
        return response


@pytest.fixture
def authorizer(harness: Harness) -> TableAuthorizer:
    fake = Groups()
    for name in ("ListGroups", "ShareGroupDescribe", "DescribeShareGroupOffsets"):
        setattr(harness.coordinator, name, getattr(fake, name))
    catalog = harness.gateway.catalog
    catalog.broker = dataclasses.replace(catalog.broker, auto_create_topics_enable=True)
    table = harness.gateway.authorizer = TableAuthorizer()
    return table


def codes_of(message: Any) -> Iterator[ErrorCode]:
    """Returns the error codes in a message, at any depth."""
    for field, value in message.ListFields():
        if field.name == "error_code":
            yield ErrorCode(value)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for item in value if field.is_repeated else [value]:
                yield from codes_of(item)


async def called(harness: Harness, method: str, request: Message) -> Any:
    """Calls an RPC; returns its first response. Raises the KafkaError of the status."""
    service, name = method.rsplit("/", 1)
    stub: Any = STUBS[service.rpartition(".")[2]](harness.channel)
    call = getattr(stub, name)

    async def once() -> AsyncIterator[Message]:
        yield request

    try:
        if isinstance(call, grpc.aio.UnaryUnaryMultiCallable):
            return await call(request, timeout=SECONDS)
        streaming = isinstance(call, grpc.aio.StreamStreamMultiCallable)
        responses = call(once() if streaming else request, timeout=SECONDS)
        return await anext(aiter(responses))
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None


async def denial(harness: Harness, method: str, request: Message) -> set[ErrorCode]:
    """Returns the errors of a call: that of its status, with the resource, or those in its response."""
    try:
        return set(codes_of(await called(harness, method, request)))
    except KafkaError as refused:
        error = refused
    assert status_code(error) is grpc.StatusCode.PERMISSION_DENIED, error
    assert {"resource_type", "resource"} <= set(error.metadata)
    return {error.code}


def cases() -> list[tuple[str, Need]]:
    return [
        (method, need)
        for method, row in PUBLIC.items()
        for need in row.needs
        if not method.endswith("/ListGroups")
    ]


_DENIED = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@pytest.mark.usefixtures("authorizer")
@each("method, need", cases())
async def test_a_call_without_a_right_of_its_row_is_denied(harness: Harness, method: str, need: Need) -> None:
    authorizer = harness.gateway.authorizer = TableAuthorizer()
    for right in need.any_of:
        authorizer.deny(right.operation, right.type)
    found = await denial(harness, method, REQUESTS[method.rpartition("/")[2]][need.when])
    (code,) = found
    assert code in {_DENIED[right.type] for right in need.any_of}
    rights = {(right.operation, right.type) for each in PUBLIC[method].needs for right in each.any_of}
    assert {(operation, kind) for operation, kind, _ in authorizer.checked} <= rights


@pytest.mark.usefixtures("authorizer")
@each("method, need", cases())
async def test_a_denied_call_has_one_audit_line(harness: Harness, method: str, need: Need) -> None:
    authorizer = harness.gateway.authorizer = TableAuthorizer()
    for right in need.any_of:
        authorizer.deny(right.operation, right.type)
    audit.windows.clear()  # equal denials of earlier cases
    with capture_logs() as lines:
        await denial(harness, method, REQUESTS[method.rpartition("/")[2]][need.when])
    (line,) = [line for line in lines if line["event"] == "authorization denied"]
    assert (line["operation"], line["resource_type"]) in {
        (right.operation.name, right.type.name) for right in need.any_of
    }
    assert line["resource"] == _RESOURCES[line["resource_type"]] or line["resource"] == "new"
    caller = (line["principal"], line["host"], line["listener"], line["outcome"])
    assert caller == ("User:ANONYMOUS", "127.0.0.1", "grpc", "denied")


_RESOURCES = {"TOPIC": "flights", "GROUP": "g", "CLUSTER": "kafka-cluster", "TRANSACTIONAL_ID": "t"}


async def test_every_public_rpc_has_a_request() -> None:
    for method, row in PUBLIC.items():
        assert {need.when for need in row.needs} <= set(REQUESTS[method.rpartition("/")[2]]), method


async def test_every_public_service_has_rows(harness: Harness) -> None:
    served = {service.name for service in services(harness.gateway)}
    assert served == {method.split("/")[1] for method in PUBLIC}


async def test_the_caller_is_the_requester(harness: Harness, authorizer: TableAuthorizer) -> None:
    await called(harness, "AdminService/Metadata", REQUESTS["Metadata"][""])
    assert {str(caller) for caller, _ in authorizer.requesters} == {"User:ANONYMOUS"}
    assert {host for _, host in authorizer.requesters} == {"127.0.0.1"}
