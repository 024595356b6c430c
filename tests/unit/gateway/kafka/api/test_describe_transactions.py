"""DescribeTransactions: each transactional id has its own result."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC, OFFSETS_TOPIC_ID
from sharebroker_server.kafka_wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def reply(request: pb.DescribeTransactionsRequest) -> pb.DescribeTransactionsResponse:
    (name,) = request.transactional_ids
    if name != "t":
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "unknown")
    response = pb.DescribeTransactionsResponse()
    state = response.transaction_states.add(
        transactional_id="t",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1000,
        producer_id=5,
        producer_epoch=2,
    )
    for topic_id in (TOPIC.topic_id, OFFSETS_TOPIC_ID, "C" * 21 + "A"):
        state.partitions.add(topic_id=topic_id, partition=1)
    return response


async def test_each_transactional_id_has_its_own_result(harness: Harness) -> None:
    harness.services.reply("DescribeTransactions", reply)
    request = DescribeTransactionsRequest(transactional_ids=["t", "none"])
    found, unknown = (await harness.call(0, request, DescribeTransactionsResponse)).transaction_states
    assert (found.transactional_id, found.transaction_state, found.error_code) == ("t", "Ongoing", 0)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, 1000)
    assert (found.producer_id, found.producer_epoch) == (5, 2)
    assert {one.topic: list(one.partitions) for one in found.topics} == {TOPIC.name: [1], OFFSETS_TOPIC: [1]}
    assert (unknown.transactional_id, unknown.error_code) == ("none", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


async def test_forbidden_transactions_are_errors_and_forbidden_topics_are_omitted(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("DescribeTransactions", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, "secret")
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, TOPIC.name)
    request = DescribeTransactionsRequest(transactional_ids=["secret", "t"])
    secret, found = (await harness.call(0, request, DescribeTransactionsResponse)).transaction_states
    assert (secret.transactional_id, secret.error_code) == (
        "secret",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
    assert (found.error_code, [one.topic for one in found.topics]) == (ErrorCode.NONE, [OFFSETS_TOPIC])
    assert len(harness.services.requests["DescribeTransactions"]) == 1
