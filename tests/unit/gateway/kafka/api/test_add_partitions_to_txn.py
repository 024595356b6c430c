"""AddPartitionsToTxn: all partitions of a transaction or none, in both forms of the request."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.kafka_wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.unit.gateway.fakes import TOPIC, move_upstream
from tests.unit.gateway.kafka.api.harness import Harness

Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


def topics(*names: str) -> list[Topic]:
    return [Topic(name=name, partitions=[0, 1]) for name in names]


def one_transaction(*names: str) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=2,
        v3_and_below_topics=topics(*names),
    )


def results(response: AddPartitionsToTxnResponse) -> list[int]:
    return [
        one.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ]


async def test_version_3_names_one_transaction(harness: Harness) -> None:
    harness.services.reply_each("AddPartitionsToTxn", pb.AddPartitionsToTxnResponse)
    response = await harness.call(3, one_transaction(TOPIC.name), AddPartitionsToTxnResponse)
    assert results(response) == [0, 0]
    request = harness.services.only("AddPartitionsToTxn")
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("t", 5, 2)
    assert [(one.topic_id, one.partition) for one in request.partitions] == [
        (TOPIC.topic_id, 0),
        (TOPIC.topic_id, 1),
    ]


async def test_version_4_names_several_transactions(harness: Harness) -> None:
    harness.services.reply_each("AddPartitionsToTxn", pb.AddPartitionsToTxnResponse)
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    request = AddPartitionsToTxnRequest(
        transactions=[
            transaction(transactional_id="a", verify_only=True, topics=topics(TOPIC.name)),
            transaction(transactional_id="b", topics=topics("unknown")),
        ]
    )
    response = await harness.call(4, request, AddPartitionsToTxnResponse)
    found = {
        result.transactional_id: [
            one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition
        ]
        for result in response.results_by_transaction
    }
    assert found == {"a": [0, 0], "b": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2}
    assert harness.services.only("AddPartitionsToTxn").verify_only


async def test_known_partitions_have_topic_ids(harness: Harness) -> None:
    harness.services.reply_each("AddPartitionsToTxn", pb.AddPartitionsToTxnResponse)
    request = one_transaction()
    request.v3_and_below_topics = [Topic(name=TOPIC.name, partitions=[1, 0])]
    await harness.call(3, request, AddPartitionsToTxnResponse)
    sent = harness.services.only("AddPartitionsToTxn").partitions
    assert [(one.topic_id, one.partition) for one in sent] == [(TOPIC.topic_id, 1), (TOPIC.topic_id, 0)]


@pytest.mark.parametrize(("name", "index"), [("unknown", 0), (TOPIC.name, 2), (OFFSETS_TOPIC, 0)])
async def test_unknown_and_internal_partitions_are_errors(harness: Harness, name: str, index: int) -> None:
    request = one_transaction()
    request.v3_and_below_topics = [Topic(name=name, partitions=[index])]
    (code,) = results(await harness.call(3, request, AddPartitionsToTxnResponse))
    assert code != ErrorCode.NONE


async def test_one_unknown_topic_prevents_all_others(harness: Harness) -> None:
    response = await harness.call(3, one_transaction(TOPIC.name, "unknown"), AddPartitionsToTxnResponse)
    assert results(response) == [
        *[ErrorCode.OPERATION_NOT_ATTEMPTED] * 2,
        *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
    ]


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
async def test_every_partition_has_the_error_of_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.fail("AddPartitionsToTxn", ErrorCode.PRODUCER_FENCED)
    response = await harness.call(version, one_transaction(TOPIC.name), AddPartitionsToTxnResponse)
    assert results(response) == [code, code]


async def test_topics_of_an_upstream_cluster_are_not_added(harness: Harness) -> None:
    move_upstream(harness.gateway.catalog)
    response = await harness.call(3, one_transaction(TOPIC.name), AddPartitionsToTxnResponse)
    assert results(response) == [ErrorCode.POLICY_VIOLATION] * 2
    assert not harness.services.requests["AddPartitionsToTxn"]
