"""Produce: batches are forwarded unchanged, errors per partition, leader hints, acks=0."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.messages import ProduceRequest, ProduceResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC, UPSTREAM, move_upstream
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.record_log.batches import batch

RECORDS = batch()


def request(version: int, *indexes: int, acks: int = -1, records: bytes = RECORDS) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(index=index, records=records) for index in indexes]
    by_id = version >= 13
    topic = ProduceRequest.TopicProduceData(
        name="" if by_id else TOPIC.name, topic_id=TOPIC.topic_id if by_id else "", partition_data=data
    )
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


@pytest.mark.parametrize("version", [3, 9, 12, 13])
async def test_each_partition_has_its_own_result(harness: Harness, version: int) -> None:
    fields = {"base_offset": 40, "log_append_time_ms": 1000, "log_start_offset": 2}
    harness.services.reply_each("Produce", pb.ProduceResponse, **fields)
    (topic,) = (await harness.call(version, request(version, 1, 7), ProduceResponse)).responses
    assert (topic.name, topic.topic_id) == (("", TOPIC.topic_id) if version >= 13 else (TOPIC.name, ""))
    found, unknown = topic.partition_responses
    assert (found.index, found.error_code, found.base_offset, found.log_append_time_ms) == (1, 0, 40, 1000)
    assert found.log_start_offset == (2 if version >= 5 else -1)
    assert (unknown.index, unknown.base_offset) == (7, -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (sent,) = harness.services.only("Produce").partitions
    assert (sent.topic_id, sent.partition, sent.record_batches) == (TOPIC.topic_id, 1, RECORDS)


@pytest.mark.parametrize(("version", "hinted"), [(9, False), (10, True)])
async def test_another_leader_is_an_error_with_a_hint(harness: Harness, version: int, hinted: bool) -> None:
    harness.lead_elsewhere()
    response = await harness.call(version, request(version, 0), ProduceResponse)
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == (2 if hinted else -1)
    assert [one.node_id for one in response.node_endpoints] == ([2] if hinted else [])


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_append_error_code_depends_on_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.reply_each(
        "Produce", pb.ProduceResponse, error_code=int(ErrorCode.TRANSACTION_ABORTABLE)
    )
    (topic,) = (await harness.call(version, request(version, 0), ProduceResponse)).responses
    assert codes(topic.partition_responses) == {0: code}


async def test_invalid_acks_and_several_batches_are_rejected(harness: Harness) -> None:
    (topic,) = (await harness.call(9, request(9, 0, acks=2), ProduceResponse)).responses
    assert codes(topic.partition_responses) == {0: ErrorCode.INVALID_REQUIRED_ACKS}
    (topic,) = (await harness.call(9, request(9, 0, records=RECORDS * 2), ProduceResponse)).responses
    assert codes(topic.partition_responses) == {0: ErrorCode.INVALID_RECORD}
    assert not harness.services.requests


@pytest.mark.parametrize("version", [9, 13])
async def test_a_partition_named_again_is_rejected(harness: Harness, version: int) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse)
    named = request(version, 0, 1, 0)
    named.topic_data = [*named.topic_data, *request(version, 1).topic_data]
    topics = (await harness.call(version, named, ProduceResponse)).responses
    found = [[part.error_code for part in topic.partition_responses] for topic in topics]
    assert found == [[0, 0, ErrorCode.INVALID_REQUEST], [ErrorCode.INVALID_REQUEST]]
    assert [part.partition for part in harness.services.only("Produce").partitions] == [0, 1]


async def test_acks_0_has_no_response_and_closes_the_connection_after_a_failure(harness: Harness) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse)
    assert await harness.send(9, request(9, 0, acks=0)) is None
    with pytest.raises(BadMessage, match="A Produce with acks=0 failed with error 3"):
        await harness.send(9, request(9, 7, acks=0))


@pytest.mark.parametrize(("version", "adds"), [(11, False), (12, True)])
async def test_a_transactional_write_adds_its_partition_from_version_12_on(
    harness: Harness, version: int, adds: bool
) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse)
    write = request(version, 0)
    write.transactional_id = "t"
    await harness.call(version, write, ProduceResponse)
    sent = harness.services.only("Produce")
    assert (sent.transactional_id, sent.adds_partitions) == ("t", adds)


@pytest.mark.parametrize(
    ("transactional", "named", "denied"), [(True, True, True), (True, False, True), (False, True, False)]
)
async def test_transactional_records_require_their_transactional_id(
    harness: Harness, authorizer: TableAuthorizer, transactional: bool, named: bool, denied: bool
) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse)
    if named:
        authorizer.deny(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "t")
    records = RECORDS[:22] + bytes([RECORDS[22] | 0x10]) + RECORDS[23:] if transactional else RECORDS
    made = request(11, 1, records=records)
    made.transactional_id = "t" if named else None
    (topic,) = (await harness.call(11, made, ProduceResponse)).responses
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if denied else ErrorCode.NONE
    assert codes(topic.partition_responses) == {1: code}


async def test_a_forbidden_topic_does_not_affect_others(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse)
    authorizer.deny(AclOperation.WRITE, AclResourceType.TOPIC, "secret")
    made = request(11, 1)
    data = [ProduceRequest.PartitionProduceData(index=0, records=RECORDS)]
    secret = ProduceRequest.TopicProduceData(name="secret", partition_data=data)
    made.topic_data = [secret, *made.topic_data]
    response = await harness.call(11, made, ProduceResponse)
    assert {topic.name: codes(topic.partition_responses) for topic in response.responses} == {
        "secret": {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        TOPIC.name: {1: ErrorCode.NONE},
    }


async def test_the_permission_on_a_topic_is_checked_once(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse)
    await harness.call(11, request(11, 0, 1), ProduceResponse)
    assert authorizer.checked == [(AclOperation.WRITE, AclResourceType.TOPIC, TOPIC.name)]
    authorizer.deny(AclOperation.WRITE, AclResourceType.TOPIC, TOPIC.name)
    (topic,) = (await harness.call(11, request(11, 0, 1), ProduceResponse)).responses
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes(topic.partition_responses) == {0: denied, 1: denied}
    assert len(authorizer.checked) == 2


async def test_one_transactional_batch_requires_the_permission_for_the_request(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "t")
    transactional = RECORDS[:22] + bytes([RECORDS[22] | 0x10]) + RECORDS[23:]
    made = request(11, 0, 1)
    made.topic_data = [*made.topic_data, *request(11, 2, records=transactional).topic_data]
    made.transactional_id = "t"
    topics = (await harness.call(11, made, ProduceResponse)).responses
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert [codes(topic.partition_responses) for topic in topics] == [{0: denied, 1: denied}, {2: denied}]
    assert not harness.services.requests


@pytest.mark.parametrize(("version", "explained"), [(3, False), (7, False), (8, True), (13, True)])
async def test_topics_of_an_upstream_cluster_are_not_written(
    harness: Harness, version: int, explained: bool
) -> None:
    move_upstream(harness.gateway.catalog)
    response = await harness.call(version, request(version, 0), ProduceResponse)
    (part,) = response.responses[0].partition_responses
    assert (part.error_code, part.base_offset) == (ErrorCode.POLICY_VIOLATION, -1)
    assert (UPSTREAM in (part.error_message or "")) is explained
    assert not harness.services.requests["Produce"]
