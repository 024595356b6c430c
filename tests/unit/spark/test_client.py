"""Blocking calls, and their retries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.plan_pb2 import OpenSessionRequest
from sharebroker_protocol.rpc_status import status_code, trailing_metadata
from sharebroker_spark import client as module
from sharebroker_spark.client import CallResult, Client, shared

ADDRESS = "127.0.0.1:9"


@pytest.fixture(params=[True, False])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client that retries without a pause, with and without a time limit."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    client = Client(ADDRESS, waits=request.param)
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


def test_retriable_errors_are_retried_and_the_result_shows_it(client: Client) -> None:
    assert client.call_with_retry(Method(), "request") == CallResult("request", first_attempt=True)
    result = client.call_with_retry(Method(UNAVAILABLE, ErrorCode.NOT_COORDINATOR), "request")
    assert result == CallResult("request", first_attempt=False)
    assert client.call(Method(UNAVAILABLE), "request") == "request"


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_a_permanent_error_and_a_missing_topic_end_the_call(client: Client, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        client.call(Method(code), "request")
    assert caught.value.code is code


def test_only_a_client_that_does_not_wait_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", -1.0)
    with Client.closing(ADDRESS) as waiting:
        assert waiting.call(Method(UNAVAILABLE), "request") == "request"
    failing = Client(ADDRESS, waits=False)
    with pytest.raises(KafkaError, match=f"{ADDRESS} is unavailable, and onUnavailable is fail") as caught:
        failing.call(Method(UNAVAILABLE), "request")
    assert caught.value.code is UNAVAILABLE
    failing.close()


def test_a_single_attempt_is_not_repeated(client: Client) -> None:
    with pytest.raises(KafkaError):
        client.try_once(Method(UNAVAILABLE), "request")


def test_a_closed_client_does_not_retry() -> None:
    with Client.closing(ADDRESS) as client:
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
