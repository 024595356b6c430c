"""Requests with many entries are served in portions, between which other requests are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from typing_extensions import override

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.aio import Turns
from sharebroker_server.catalog.access_view import AccessView
from sharebroker_server.catalog.acls import AclRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.kafka.topics import PORTION
from sharebroker_server.kafka_wire import messages as m
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import binding
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from tests.support.kafka_client import fetch_topics
from tests.unit.gateway.fakes import TOPIC, add_topic
from tests.unit.gateway.kafka.api.harness import Harness

PORTIONS: Final = 4
NUMBER: Final = PORTION * PORTIONS


class CountedTurns(Turns):
    """Counts the turns."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    @override
    async def next(self) -> None:
        self.taken += 1
        await super().next()


def _committed(_: Any) -> pb.OffsetFetchResponse:
    row = pb.OffsetFetchResponse.Partition
    rows = (row(topic_id=TOPIC.topic_id, partition=index, committed_offset=7) for index in range(NUMBER))
    return pb.OffsetFetchResponse(partitions=rows)


def _described(request: group.DescribeShareGroupOffsetsRequest) -> group.DescribeShareGroupOffsetsResponse:
    response = group.DescribeShareGroupOffsetsResponse()
    topic = response.groups.add(group_id=request.groups[0].group_id).topics.add(topic_name=TOPIC.name)
    for index in range(NUMBER):
        topic.partitions.add(partition=index)
    return response


def _commit() -> Message:
    part = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=7)
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC.name, partitions=[part] * NUMBER)
    return m.OffsetCommitRequest(group_id="g", topics=[topic])


def _commit_topics() -> Message:
    part = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=7)
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC.name, partitions=[part])
    return m.OffsetCommitRequest(group_id="g", topics=[topic] * NUMBER)


def _txn_commit() -> Message:
    part = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=7)
    topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC.name, partitions=[part] * NUMBER)
    return m.TxnOffsetCommitRequest(transactional_id="t", group_id="g", topics=[topic])


def _delete_offsets() -> Message:
    part = m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=1)
    topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=TOPIC.name, partitions=[part] * NUMBER)
    return m.OffsetDeleteRequest(group_id="g", topics=[topic])


def _fetch_offsets() -> Message:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC.name, partition_indexes=range(NUMBER))
    one = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    return m.OffsetFetchRequest(groups=[one])


def _fetch_topics() -> Message:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC.name, partition_indexes=())
    one = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic] * NUMBER)
    return m.OffsetFetchRequest(groups=[one])


def _fetch_all_offsets() -> Message:
    return m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)]
    )


def _list_offsets() -> Message:
    part = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=1, timestamp=-1)
    topic = m.ListOffsetsRequest.ListOffsetsTopic(name=TOPIC.name, partitions=[part] * NUMBER)
    return m.ListOffsetsRequest(topics=[topic])


def _epochs() -> Message:
    part = m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=1, leader_epoch=0)
    topic = m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=TOPIC.name, partitions=[part] * NUMBER)
    return m.OffsetForLeaderEpochRequest(topics=[topic])


def _describe() -> Message:
    request = m.DescribeShareGroupOffsetsRequest
    topic = request.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC.name, partitions=[1])
    one = request.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[topic])
    return request(groups=[one])


def _alter_offsets() -> Message:
    request = m.AlterShareGroupOffsetsRequest
    part = request.AlterShareGroupOffsetsRequestPartition(partition_index=1, start_offset=7)
    topic = request.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC.name, partitions=[part] * NUMBER)
    return request(group_id="g", topics=[topic])


def _altered(request: group.AlterShareGroupOffsetsRequest) -> group.AlterShareGroupOffsetsResponse:
    response = group.AlterShareGroupOffsetsResponse()
    for topic in request.topics:
        added = response.responses.add(topic_name=topic.topic_name)
        for part in topic.partitions:
            added.partitions.add(partition=part.partition)
    return response


def _fetch() -> Message:
    part = m.FetchRequest.FetchPartition(partition=1, partition_max_bytes=100)
    topic = m.FetchRequest.FetchTopic(topic=TOPIC.name, partitions=[part] * NUMBER)
    return m.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[topic], session_epoch=-1)


def _metadata() -> Message:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=f"unknown{number}") for number in range(NUMBER)]
    return m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@pytest.mark.parametrize(
    ("version", "request_of"),
    [
        (0, _alter_offsets),
        (12, _fetch),
        (9, _metadata),
        (9, _commit),
        (9, _commit_topics),
        (4, _txn_commit),
        (0, _delete_offsets),
        (9, _fetch_offsets),
        (9, _fetch_topics),
        (9, _fetch_all_offsets),
        (9, _list_offsets),
        (4, _epochs),
        (1, _describe),
    ],
)
async def test_other_requests_are_served_in_between(
    harness: Harness, version: int, request_of: Callable[[], Message]
) -> None:
    services, turns = harness.services, CountedTurns()
    harness.gateway.turns = turns
    services.reply_each("OffsetCommit", pb.OffsetCommitResponse)
    services.reply("TxnOffsetCommit", lambda request: _answer(request.commit))
    services.reply("OffsetDelete", pb.OffsetDeleteResponse())
    services.reply("OffsetFetch", _committed)
    services.reply("AlterShareGroupOffsets", _altered)
    services.reply("ShareGroupDescribe", group.ShareGroupDescribeResponse())
    services.reply_each("Fetch", leader.FetchResponse)
    services.reply_each("ListOffsets", leader.ListOffsetsResponse, offset=7)
    services.reply("DescribeShareGroupOffsets", _described)
    await harness.send(version, request_of())
    assert turns.taken >= PORTIONS
    sizes = [len(getattr(sent, "commit", sent).partitions) for sent in _partitioned(harness)]
    assert max(sizes, default=0) <= PORTION


LARGE: Final = Topic("L" * 21 + "A", "large", NUMBER)
EMPTY_BATCH: Final = bytes(100)


def _produce() -> Message:
    parts = [
        m.ProduceRequest.PartitionProduceData(index=index, records=EMPTY_BATCH) for index in range(NUMBER)
    ]
    topic = m.ProduceRequest.TopicProduceData(name=LARGE.name, partition_data=parts)
    return m.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def _produce_topics() -> Message:
    part = m.ProduceRequest.PartitionProduceData(index=0, records=EMPTY_BATCH)
    topic = m.ProduceRequest.TopicProduceData(name="unknown", partition_data=[part])
    return m.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic] * NUMBER)


def _share_fetch(epoch: int = 0) -> Message:
    acks = {(LARGE.topic_id, index): [(5, 5, [1])] for index in range(NUMBER)} if epoch else {}
    topics: Any = fetch_topics({LARGE.topic_id: range(NUMBER)}, acks)
    return m.ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=epoch,
        max_records=500,
        max_bytes=1000,
        topics=topics,
    )


def _share_acknowledge() -> Message:
    batch = m.ShareAcknowledgeRequest.AcknowledgementBatch(
        first_offset=5, last_offset=5, acknowledge_types=[1]
    )
    parts = [
        m.ShareAcknowledgeRequest.AcknowledgePartition(partition_index=index, acknowledgement_batches=[batch])
        for index in range(NUMBER)
    ]
    topic = m.ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=LARGE.topic_id, partitions=parts)
    return m.ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=1, topics=[topic])


@pytest.mark.parametrize(
    ("version", "request_of", "code"),
    [
        (12, _produce, ErrorCode.NONE),
        (12, _produce_topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, _share_fetch, ErrorCode.NONE),
        (2, lambda: _share_fetch(1), ErrorCode.NONE),
        (2, _share_acknowledge, ErrorCode.NONE),
    ],
)
async def test_many_partitions_of_records_are_served_in_portions(
    harness: Harness, version: int, request_of: Callable[[], Message], code: ErrorCode
) -> None:
    gateway, services, turns = harness.gateway, harness.services, CountedTurns()
    gateway.turns = turns
    add_topic(gateway.catalog, LARGE)
    partitions = [TopicIdPartition(LARGE.topic_id, index) for index in range(NUMBER)]
    gateway.sessions.open(SessionKey("g", "m"), harness.client.connection, partitions, 0.0)
    services.reply_each("Produce", leader.ProduceResponse)
    services.reply_each("AcquireRecords", leader.AcquireRecordsResponse)
    services.reply_each("AcknowledgeRecords", leader.AcknowledgeRecordsResponse)
    response: Any = await harness.send(version, request_of())
    results = [
        part
        for topic in response.responses
        for part in getattr(topic, "partitions", None) or topic.partition_responses
    ]
    assert [part.error_code for part in results] == [code] * NUMBER
    assert turns.taken >= 2 * PORTIONS
    sizes = [
        len(one.partitions) for name in ("Produce", "AcknowledgeRecords") for one in services.requests[name]
    ]
    assert max(sizes, default=0) <= PORTION


NAMES: Final = [f"name{number}" for number in range(NUMBER)]


def _producers() -> Message:
    topic = m.DescribeProducersRequest.TopicRequest
    return m.DescribeProducersRequest(topics=[topic(name=name, partition_indexes=[0, 1]) for name in NAMES])


def _topic_partitions() -> Message:
    topic = m.DescribeTopicPartitionsRequest.TopicRequest
    return m.DescribeTopicPartitionsRequest(
        topics=[topic(name=name) for name in NAMES], response_partition_limit=2000, cursor=None
    )


def _users() -> Message:
    user = m.DescribeUserScramCredentialsRequest.UserName
    return m.DescribeUserScramCredentialsRequest(users=[user(name=name) for name in NAMES])


def _added_partitions() -> Message:
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_topics=[topic(name=name, partitions=[0]) for name in NAMES],
    )


@pytest.mark.parametrize(
    ("version", "request_of"),
    [
        (6, lambda: m.DescribeGroupsRequest(groups=NAMES)),
        (2, lambda: m.DeleteGroupsRequest(groups_names=NAMES)),
        (1, lambda: m.ShareGroupDescribeRequest(group_ids=NAMES)),
        (0, lambda: m.DescribeTransactionsRequest(transactional_ids=NAMES)),
        (6, lambda: m.FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES)),
        (0, _producers),
        (0, _topic_partitions),
        (0, _users),
        (3, _added_partitions),
    ],
)
async def test_many_names_are_served_in_portions(
    harness: Harness, version: int, request_of: Callable[[], Message]
) -> None:
    services, turns = harness.services, CountedTurns()
    harness.gateway.turns = turns
    for method in ("ConsumerGroupDescribe", "ShareGroupDescribe", "DeleteGroups", "DescribeTransactions"):
        services.fail(method, ErrorCode.INVALID_REQUEST)
    await harness.send(version, request_of())
    assert turns.taken >= PORTIONS


def _answer(request: pb.OffsetCommitRequest) -> pb.OffsetCommitResponse:
    row = pb.OffsetCommitResponse.Partition
    rows = (row(topic_id=one.topic_id, partition=one.partition) for one in request.partitions)
    return pb.OffsetCommitResponse(partitions=rows)


def _partitioned(harness: Harness) -> list[Any]:
    methods = ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "ListOffsets")
    return [sent for method in methods for sent in harness.services.requests[method]]


async def test_partitions_after_a_failure_have_its_error(harness: Harness) -> None:
    attempts = 0

    def fail_second(request: pb.OffsetCommitRequest) -> pb.OffsetCommitResponse:
        nonlocal attempts
        attempts += 1
        if attempts == 2:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return _answer(request)

    harness.services.reply("OffsetCommit", fail_second)
    (topic,) = (await harness.call(9, _commit(), m.OffsetCommitResponse)).topics
    codes = [part.error_code for part in topic.partitions]
    assert codes == [0] * PORTION + [ErrorCode.ILLEGAL_GENERATION] * (NUMBER - PORTION)
    assert attempts == 2


ACL: Final = binding(2, "orders", 3, "User:alice", "*", 3, 3)


def _create_acls() -> Message:
    fields = {**ACL._asdict(), "resource_pattern_type": ACL.pattern_type}
    del fields["pattern_type"]
    return m.CreateAclsRequest(creations=[m.CreateAclsRequest.AclCreation(**fields)] * NUMBER)


def _delete_acls() -> Message:
    one = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    return m.DeleteAclsRequest(filters=[one])


def _describe_acls() -> Message:
    return m.DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )


@pytest.mark.parametrize(
    ("request_of", "results"),
    [(_create_acls, "results"), (_delete_acls, "filter_results"), (_describe_acls, "resources")],
)
async def test_requests_for_many_acls_are_served_in_portions(
    harness: Harness, request_of: Callable[[], Message], results: str
) -> None:
    gateway, turns = harness.gateway, CountedTurns()
    gateway.turns = turns
    gateway.authorizer = AclAuthorizer(AccessView(gateway.catalog), super_users=["User:ANONYMOUS"])
    if request_of is _describe_acls:
        for number in range(NUMBER):
            record = AclRecord(ACL._replace(resource_name=f"orders{number}"))
            gateway.catalog.catalog.apply(record, 9 + number)
    failed = cluster.CreateAclsResponse.Result(error_code=wire(ErrorCode.POLICY_VIOLATION))
    deleted = cluster.DeleteAclsResponse.MatchingAcl(**ACL._asdict())
    matching = cluster.DeleteAclsResponse.FilterResult(matching_acls=[deleted] * NUMBER)
    harness.services.reply("CreateAcls", cluster.CreateAclsResponse(results=[failed] * NUMBER))
    harness.services.reply("DeleteAcls", cluster.DeleteAclsResponse(filter_results=[matching]))
    response = await harness.send(3, request_of())
    assert turns.taken >= 2 * PORTIONS
    found = getattr(response, results)
    if request_of is _delete_acls:
        found = found[0].matching_acls
    assert len(found) == NUMBER
