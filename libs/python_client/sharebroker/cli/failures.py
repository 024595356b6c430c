"""One-line error messages with advice, and exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharebroker.cli.reading import BadInputError
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import TRANSPORT

FAILED: Final = 1
BAD_USAGE: Final = 2

_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`sharebroker topics list` lists the topics.",
    ErrorCode.UNKNOWN_TOPIC_ID: "`sharebroker topics list` lists the topics.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Use 1 to 249 letters, digits, dots, underscores and hyphens.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or alter it with `sharebroker topics alter`.",
    ErrorCode.GROUP_ID_NOT_FOUND: "`sharebroker groups list` lists the groups.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its consumers first; `sharebroker groups members` lists them.",
    ErrorCode.REQUEST_TIMED_OUT: "The request may have been applied or not: check, then try again.",
    ErrorCode.KAFKA_STORAGE_ERROR: "Free disk space or memory on the server's Redis, then try again.",
}

_NO_SERVER: Final = "Start a server with `sharebroker serve`, or name one with --server."


def explain(failure: Exception) -> str:
    """Returns the failure as one line of text."""
    if isinstance(failure, KafkaError):
        advice = _ADVICE.get(failure.code, "Try again." if failure.retriable else "")
        if failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE and TRANSPORT in failure.metadata:
            advice = _NO_SERVER
        return " ".join(part for part in (*_sentences(failure), advice) if part)
    if isinstance(failure, BadInputError):
        return str(failure)
    if isinstance(failure, OSError) and failure.strerror:
        return f"{failure.strerror}: {failure.filename}" if failure.filename else failure.strerror
    return f"{type(failure).__name__}: {failure}"


def _sentences(error: KafkaError) -> tuple[str, ...]:
    violations = tuple(f"{found.field}: {found.description}" for found in error.violations)
    return tuple(" ".join(part.split()) for part in (error.message, *violations))
