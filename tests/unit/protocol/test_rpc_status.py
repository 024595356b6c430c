"""Errors as gRPC status, and back."""

from __future__ import annotations

import grpc
import pytest

from sharebroker_protocol.errors import TRANSPORT, ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.rpc_status import (
    from_rpc_error,
    status_code,
    status_message,
    trailing_metadata,
)
from tests.testkit.tables import each

FULL = KafkaError(
    ErrorCode.INVALID_RECORD_STATE,
    "offset 7: lock lost",
    metadata={"offset": "7"},
    violations=[FieldViolation("batches[0]", "not acquired")],
    retry_after=1.5,
)


def failure(
    code: grpc.StatusCode, details: str | None = None, trailers: tuple[tuple[str, bytes], ...] = ()
) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details)


def received(error: KafkaError) -> KafkaError:
    return from_rpc_error(failure(status_code(error), status_message(error), trailing_metadata(error)))


@each("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_code_round_trips_through_grpc_status(code: ErrorCode) -> None:
    error = received(KafkaError(code))
    assert (error.code, error.message, error.metadata) == (code, KafkaError(code).message, {})
    assert (error.violations, error.retry_after) == ((), None)


def test_details_round_trip_through_grpc_status() -> None:
    error = received(FULL)
    assert (error.code, error.message, error.metadata) == (FULL.code, FULL.message, FULL.metadata)
    assert (error.violations, error.retry_after) == (FULL.violations, FULL.retry_after)


def test_a_long_message_is_cut_to_fit_into_the_trailers() -> None:
    assert len(received(KafkaError(ErrorCode.INVALID_REQUEST, "x" * 5_000)).message) == 1_000


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (grpc.StatusCode.UNAVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (grpc.StatusCode.CANCELLED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (grpc.StatusCode.INTERNAL, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ErrorCode.REQUEST_TIMED_OUT),
        (grpc.StatusCode.UNIMPLEMENTED, ErrorCode.UNSUPPORTED_VERSION),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ErrorCode.MESSAGE_TOO_LARGE),
        (grpc.StatusCode.DATA_LOSS, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failure_of_the_transport_maps_to_a_code(status: grpc.StatusCode, code: ErrorCode) -> None:
    error = from_rpc_error(failure(status, "broken"))
    assert (error.code, error.message, error.metadata) == (code, "broken", {TRANSPORT: status.name})


@pytest.mark.parametrize(
    ("details", "message"),
    [
        (
            "failed to connect to all addresses; last error: ipv4:10.0.0.1:9090: refused",
            "The server at 10.0.0.1:9090 cannot be reached.",
        ),
        (
            "last error: UNKNOWN: ipv4:10.0.0.1:9090: SSL: OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: OK",
            "The server at 10.0.0.1:9090 cannot be reached over TLS: CERTIFICATE_VERIFY_FAILED.",
        ),
        (
            "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:10.0.0.1:9092: Socket closed",
            "The server at 10.0.0.1:9092 did not respond in gRPC: the port may be that of Kafka clients, "
            "or require TLS.",
        ),
        ("Socket closed", "Socket closed"),
    ],
)
def test_an_unreachable_server_is_named(details: str, message: str) -> None:
    assert from_rpc_error(failure(grpc.StatusCode.UNAVAILABLE, details)).message == message


@pytest.mark.parametrize("domain", ["sharebroker", "elsewhere00"])
def test_details_of_another_domain_are_ignored(domain: str) -> None:
    ((key, value),) = trailing_metadata(FULL)
    changed = value.replace(b"sharebroker", domain.encode())
    error = from_rpc_error(failure(grpc.StatusCode.UNAVAILABLE, "x", ((key, changed),)))
    assert (TRANSPORT in error.metadata) == (domain != "sharebroker")


def test_an_error_without_details_has_an_unknown_cause() -> None:
    assert from_rpc_error(grpc.RpcError("broken")).code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("code", [grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL])
def test_a_connection_that_is_reset_is_a_retriable_error(code: grpc.StatusCode) -> None:
    reset = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "Received RST_STREAM")
    assert from_rpc_error(reset).retriable
