"""Blocking calls, and their retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1.plan_pb2 import OpenSessionRequest
from sharebroker_protocol.rpc_status import status_code, trailing_metadata
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.rpc.errors import wire
from sharebroker_spark import client as module
from sharebroker_spark.client import CallResult, GatewayClient, log_spans, shared
from tests.unit.spark.fake_client import FakeClient

ADDRESS = "127.0.0.1:9"


@pytest.fixture(params=[True, False])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayClient]:
    """A client that retries without a pause, with and without a time limit."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    client = GatewayClient(ADDRESS, waits=request.param)
    yield client
    client.close()


class Method:
    """Fails with each of the errors, then returns the request."""

    def __init__(self, *errors: ErrorCode) -> None:
        self._errors = list(errors)

    def __call__(self, request: Any, timeout: float) -> Any:
        if not self._errors:
            return request
        error = KafkaError(self._errors.pop(0))
        trailers = grpc.aio.Metadata(*trailing_metadata(error))
        raise grpc.aio.AioRpcError(status_code(error), grpc.aio.Metadata(), trailers, error.message)


UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_retriable_errors_are_retried_and_the_result_shows_it(client: GatewayClient) -> None:
    assert client.call_with_retry(Method(), "request") == CallResult("request", first_attempt=True)
    result = client.call_with_retry(Method(UNAVAILABLE, ErrorCode.NOT_COORDINATOR), "request")
    assert result == CallResult("request", first_attempt=False)
    assert client.call(Method(UNAVAILABLE), "request") == "request"


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_a_permanent_error_and_a_missing_topic_end_the_call(client: GatewayClient, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        client.call(Method(code), "request")
    assert caught.value.code is code


def test_only_a_client_with_a_time_limit_stops_retrying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", -1.0)
    with closing(GatewayClient(ADDRESS, waits=True)) as waiting:
        assert waiting.call(Method(UNAVAILABLE), "request") == "request"
    failing = GatewayClient(ADDRESS, waits=False)
    with pytest.raises(KafkaError, match=f"{ADDRESS} is unavailable, and onUnavailable is fail") as caught:
        failing.call(Method(UNAVAILABLE), "request")
    assert caught.value.code is UNAVAILABLE
    failing.close()


def test_a_single_attempt_is_not_repeated(client: GatewayClient) -> None:
    with pytest.raises(KafkaError):
        client.try_once(Method(UNAVAILABLE), "request")


def test_a_closed_client_does_not_retry() -> None:
    with closing(GatewayClient(ADDRESS, waits=True)) as client:
        assert not client.closed
    assert client.closed
    with pytest.raises(KafkaError, match="No coordinator is available"):
        client.call(Method(UNAVAILABLE), "request")
    with pytest.raises(KafkaError, match="connection was closed") as caught:
        client.call(client.plans.OpenSession, OpenSessionRequest())
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION


def test_a_process_has_one_client_for_each_address_and_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shared", {})
    clients = shared(ADDRESS, waits=True), shared(ADDRESS, waits=False), shared("127.0.0.1:10", waits=True)
    assert shared(ADDRESS, waits=True) is clients[0]
    assert len(set(map(id, clients))) == 3
    for client in clients:
        client.close()


PARTITIONS = {"a": 2, "b": 1}
EARLIEST, COMMITTED = -2, 1


def metadata(request: admin.MetadataRequest) -> admin.MetadataResponse:
    response = admin.MetadataResponse()
    for name in request.topics:
        topic = response.topics.add(name=name, topic_id=name.upper())
        if name not in PARTITIONS:
            topic.error_code = wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for index in range(PARTITIONS.get(name, 0)):
            topic.partitions.add(partition_index=index)
    return response


def offsets(request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
    """Every log begins at its partition number and has ten records."""
    response = leader.ListOffsetsResponse()
    for part in reversed(request.partitions):
        offset = part.partition + (0 if part.timestamp == EARLIEST else 10)
        response.partitions.add(topic_id=part.topic_id, partition=part.partition, offset=offset)
    return response


def test_every_partition_has_its_first_and_last_stable_offset() -> None:
    fake = FakeClient(Metadata=metadata, ListOffsets=offsets)
    assert log_spans(fake.client, ["a", "b"]) == {("a", 0): (0, 10), ("a", 1): (1, 11), ("b", 0): (0, 10)}
    assert [request.isolation_level for request in fake.requests[1:]] == [COMMITTED, COMMITTED]


def test_an_unknown_topic_is_named() -> None:
    fake = FakeClient(Metadata=metadata, ListOffsets=offsets)
    with pytest.raises(KafkaError, match="Topic 'c' does not exist") as caught:
        log_spans(fake.client, ["a", "c"])
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_without_offset_is_an_error() -> None:
    def failing(request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
        response = offsets(request)
        response.partitions[0].error_code = wire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        response.partitions[0].error_message = "moved"
        return response

    with pytest.raises(KafkaError, match="moved") as caught:
        log_spans(FakeClient(Metadata=metadata, ListOffsets=failing).client, ["a"])
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
