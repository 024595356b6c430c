"""Calls, clients, the memory of fetches, refusals, error codes of versions, and features."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.api.fetch import failed
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.call import (
    FETCH_MEMORY,
    ClientConnection,
    Refusal,
    for_version,
)
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from sharebroker_server.security.acl import Requester
from sharebroker_server.security.principal import ANONYMOUS, Principal
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.fixture
async def harness(request: pytest.FixtureRequest) -> Any:
    harness = Harness(getattr(request, "param", None))
    yield harness
    await harness.close()


def test_fetches_in_flight_share_their_memory(harness: Harness) -> None:
    call = harness.call_of(ApiVersionsRequest())
    assert call.limit_bytes(FETCH_MEMORY * 2) == FETCH_MEMORY
    harness.listener.fetches_in_flight = 4
    assert call.limit_bytes(FETCH_MEMORY) == FETCH_MEMORY // 4
    assert call.limit_bytes(1000) == 1000


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"),
    [
        (None, REQUEST_TIMEOUT),
        (0, REQUEST_TIMEOUT),
        (-1, REQUEST_TIMEOUT),
        (500, 0.5),
        (10**9, REQUEST_TIMEOUT),
    ],
)
def test_the_deadline_is_bounded(harness: Harness, timeout_ms: int | None, seconds: float) -> None:
    call = harness.call_of(ApiVersionsRequest())
    assert call.deadline(timeout_ms).remaining() == pytest.approx(seconds, abs=0.4)


@pytest.mark.parametrize(
    ("software", "expected"),
    [
        ("librdkafka 2.12.0", True),
        ("confluent-kafka-python 2.12.0", True),
        ("apache-kafka-java 4.1.0", False),
    ],
)
def test_wrappers_of_librdkafka_are_recognised(software: str, expected: bool) -> None:
    assert ClientConnection("kafka-1", "/host", software).is_librdkafka is expected


def test_the_host_of_a_requester_is_an_address(harness: Harness) -> None:
    assert harness.call_of(ApiVersionsRequest()).requester == Requester(ANONYMOUS, "10.0.0.1")


def test_requests_of_a_principal_share_its_rights(harness: Harness) -> None:
    harness.gateway.authorizer = TableAuthorizer()
    first = harness.call_of(ApiVersionsRequest()).rights
    assert harness.call_of(ApiVersionsRequest()).rights is first
    assert first.requester == Requester(ANONYMOUS, "10.0.0.1")
    harness.client.owner = Principal("alice")
    assert harness.call_of(ApiVersionsRequest()).rights.requester == Requester(Principal("alice"), "10.0.0.1")


@pytest.mark.parametrize("harness", [{"share.version": 0}], indirect=True)
def test_a_feature_disables_its_apis(harness: Harness) -> None:
    assert not harness.listener.is_enabled(APIS[78])
    keys = [api.key for api in harness.listener.enabled_apis()]
    assert keys == sorted(APIS.keys() - {76, 77, 78, 79, 90, 91, 92})


def test_waiting_idle_requests_are_a_gauge(harness: Harness) -> None:
    names = [family.name for family in harness.listener.families()]
    assert "sharebroker_kafka_idle_requests_waiting" in names


ERROR = KafkaError(ErrorCode.INVALID_REQUEST, "no")


def test_refusal_sets_the_error_code_of_the_response(harness: Harness) -> None:
    refused = Refusal(HeartbeatResponse)(harness.call_of(HeartbeatRequest(group_id="g")), ERROR)
    assert refused == HeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)


def test_refusal_sets_message_and_constant_fields(harness: Harness) -> None:
    refuse = Refusal(ConsumerGroupHeartbeatResponse, member_epoch=-1)
    refused = refuse(harness.call_of(ConsumerGroupHeartbeatRequest(member_id="m", member_epoch=7)), ERROR)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "no")
    assert (refused.member_id, refused.member_epoch) == (None, -1), "fields of the response are not echoed"


def test_nested_items_are_echoed_by_name(harness: Harness) -> None:
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=3, offset=70)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[partition])
    echo = {"topics": "topics", "topics.partitions": "partitions"}
    refuse = Refusal(DeleteRecordsResponse, echo, low_watermark=-1)
    (result,) = refuse(harness.call_of(DeleteRecordsRequest(topics=[topic])), ERROR).topics
    assert result.name == "t"
    (failed,) = result.partitions
    assert (failed.partition_index, failed.low_watermark) == (3, -1)
    assert failed.error_code == ErrorCode.INVALID_REQUEST


def test_items_are_filled_when_they_are_read(harness: Harness) -> None:
    filled: list[str] = []

    def name(source: str) -> str:
        filled.append(source)
        return source

    refuse = Refusal(DeleteGroupsResponse, {"results": "groups_names", "results.group_id": name})
    refused = refuse(harness.call_of(DeleteGroupsRequest(groups_names=["a", "b", "c"])), ERROR)
    assert (len(refused.results), filled) == (3, [])
    assert [one.group_id for one in refused.results[1:]] == ["b", "c"]
    assert filled == ["b", "c"]


def test_scalar_items_are_echoed_by_a_function(harness: Harness) -> None:
    refuse = Refusal(DeleteGroupsResponse, {"results": "groups_names", "results.group_id": str})
    refused = refuse(harness.call_of(DeleteGroupsRequest(groups_names=["a", "b"])), ERROR)
    assert [(one.group_id, one.error_code) for one in refused.results] == [("a", 42), ("b", 42)]


def test_item_of_a_refusal_has_constants_and_the_error_code() -> None:
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=3, offset=70)
    echo = {"topics": "topics", "topics.partitions": "partitions"}
    refuse = Refusal(DeleteRecordsResponse, echo, low_watermark=-1)
    failed = refuse.item("topics.partitions", partition, ERROR)
    assert (failed.partition_index, failed.low_watermark) == (3, -1)
    assert failed.error_code == ErrorCode.INVALID_REQUEST
    assert refuse.item("topics.partitions", partition).error_code == ErrorCode.NONE


def test_a_transactional_id_is_required(harness: Harness) -> None:
    call = harness.call_of(ApiVersionsRequest())
    call.check_transactional_id("t")
    with pytest.raises(KafkaError) as error:
        call.check_transactional_id("")
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_the_api_version_implies_the_transaction_version(harness: Harness) -> None:
    call = harness.call_of(ApiVersionsRequest())
    assert call.transaction_version(implied=True) == 2
    assert call.transaction_version(implied=False) == 0


PRODUCE, FETCH, DELETE_TOPICS, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 0, 1, 20, 22, 24, 26
OFFSET_COMMIT, TXN_OFFSET_COMMIT, SHARE_GROUP_HEARTBEAT, NO_VERSION = 8, 28, 76, 1 << 15


@pytest.mark.parametrize(
    ("key", "since", "error", "before"),
    [
        (PRODUCE, 4, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (PRODUCE, 11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (FETCH, 6, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (DELETE_TOPICS, 3, ErrorCode.TOPIC_DELETION_DISABLED, ErrorCode.INVALID_REQUEST),
        (INIT_PRODUCER_ID, 4, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ADD_PARTITIONS_TO_TXN, 2, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (END_TXN, 2, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (OFFSET_COMMIT, NO_VERSION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.ILLEGAL_GENERATION),
        (TXN_OFFSET_COMMIT, 6, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.ILLEGAL_GENERATION),
        (SHARE_GROUP_HEARTBEAT, NO_VERSION, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_older_versions_receive_the_replaced_error_code(
    key: int, since: int, error: ErrorCode, before: ErrorCode
) -> None:
    assert for_version(key, since - 1, error) is before
    assert for_version(key, since, error) is error
    assert for_version(key, 0, ErrorCode.INVALID_RECORD) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (4, ErrorCode.KAFKA_STORAGE_ERROR),
        (13, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_full_queue_is_an_error_that_producers_retry(version: int, expected: ErrorCode) -> None:
    assert for_version(0, version, ErrorCode.THROTTLING_QUOTA_EXCEEDED) is expected


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_fetch_partitions_have_the_error_code_of_the_version(version: int, code: ErrorCode) -> None:
    response: Any = failed(0, ErrorCode.KAFKA_STORAGE_ERROR, version)
    assert response.error_code == code
