"""Converts a `KafkaError` to a gRPC status and back.

The status carries `google.rpc.ErrorInfo` (reason: Kafka's error name, domain: `sharebroker`), `BadRequest`
for invalid fields and `RetryInfo` if a later retry can succeed.
"""

from __future__ import annotations

import re
from typing import Any, cast

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from sharebroker_protocol.errors import ERROR_DOMAIN, TRANSPORT, ErrorCode, FieldViolation, KafkaError

_DETAILS_KEY = "grpc-status-details-bin"
_CODE_KEY = "kafka_error_code"
_LONGEST_MESSAGE = 1_000

_FROM_STATUS = {
    grpc.StatusCode.UNAVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # Our servers send details with every failure. A status without them means that the connection broke.
    grpc.StatusCode.CANCELLED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    grpc.StatusCode.INTERNAL: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: ErrorCode.REQUEST_TIMED_OUT,
    grpc.StatusCode.UNIMPLEMENTED: ErrorCode.UNSUPPORTED_VERSION,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ErrorCode.MESSAGE_TOO_LARGE,
}


def status_code(error: KafkaError) -> grpc.StatusCode:
    """Returns the gRPC status code of an error."""
    code: grpc.StatusCode = grpc.StatusCode[error.code.status]
    return code


def trailing_metadata(error: KafkaError) -> tuple[tuple[str, bytes], ...]:
    """Returns the details of an error as trailing metadata of its call."""
    status = status_pb2.Status(code=status_code(error).value[0], message=status_message(error))
    info = error_details_pb2.ErrorInfo(reason=error.code.name, domain=ERROR_DOMAIN)
    info.metadata.update(error.metadata)
    info.metadata[_CODE_KEY] = str(int(error.code))
    status.details.add().Pack(info)
    if error.violations:
        bad_request = error_details_pb2.BadRequest()
        for violation in error.violations:
            bad_request.field_violations.add(field=violation.field, description=violation.description)
        status.details.add().Pack(bad_request)
    if error.retry_after is not None:
        delay = Duration()
        delay.FromNanoseconds(round(error.retry_after * 1e9))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return ((_DETAILS_KEY, status.SerializeToString()),)


def status_message(error: KafkaError) -> str:
    """Returns the status message, truncated to fit into the trailers."""
    return error.message[:_LONGEST_MESSAGE]


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: KafkaError) -> None:
    """Ends a call on the server with the status of an error; gRPC raises AbortError."""
    await context.abort(status_code(error), status_message(error), trailing_metadata(error))


_TLS = re.compile(r"(?:OPENSSL_internal|UNAUTHENTICATED): ?(.*?)(?:: OK)?\.?$")
"""Extracts the reason of a failed TLS handshake from gRPC's message."""
_NOT_GRPC = re.compile(
    r"failed to connect to all addresses.*(Socket closed|Failed parsing HTTP/2)", re.DOTALL
)
"""Matches gRPC's message for a connection whose other end closed it, or sent something else, at the start."""


def from_rpc_error(failure: grpc.RpcError) -> KafkaError:
    """Returns the error of a failed call; a transport failure maps to the nearest Kafka code."""
    code = (
        failure.code() if isinstance(failure, grpc.Call | grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
    )
    for key, value in _trailers(failure):
        if key == _DETAILS_KEY and isinstance(value, bytes):
            error = _from_details(status_pb2.Status.FromString(value))
            if error is not None:
                return error
    text = str(failure.details() if hasattr(failure, "details") else failure)
    kafka = _FROM_STATUS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(kafka, _readable(code, text), metadata={TRANSPORT: code.name})


def _trailers(failure: grpc.RpcError) -> list[tuple[str, str | bytes]]:
    trailers = failure.trailing_metadata() if hasattr(failure, "trailing_metadata") else None
    return [
        (str(item[0]), cast("str | bytes", item[1]))
        for item in cast("list[tuple[object, object]]", trailers or ())
    ]


def _readable(code: grpc.StatusCode, text: str) -> str:
    unreachable = re.search(r"ipv[46]:(\S+:\d+)", text)
    if code is grpc.StatusCode.UNAVAILABLE and unreachable:
        if _NOT_GRPC.search(text):
            server = f"The server at {unreachable.group(1)}"
            return f"{server} did not respond in gRPC: the port may be that of Kafka clients, or require TLS."
        refused = _TLS.search(text)
        why = f" over TLS: {refused.group(1)}" if refused else ""
        return f"The server at {unreachable.group(1)} cannot be reached{why}."
    return text or _FROM_STATUS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR).text


def _from_details(status: status_pb2.Status) -> KafkaError | None:
    info = error_details_pb2.ErrorInfo()
    bad_request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        for message in (info, bad_request, retry):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    if info.domain != ERROR_DOMAIN or info.reason not in ErrorCode.__members__:
        return None
    return KafkaError(
        ErrorCode[info.reason],
        status.message,
        metadata={key: value for key, value in info.metadata.items() if key != _CODE_KEY},
        violations=[FieldViolation(v.field, v.description) for v in bad_request.field_violations],
        retry_after=retry.retry_delay.ToNanoseconds() / 1e9 if retry.HasField("retry_delay") else None,
    )
