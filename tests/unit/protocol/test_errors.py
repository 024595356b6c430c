"""Error codes, and the table that both sides of a call use."""

from __future__ import annotations

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.tables import each


def test_an_unknown_code_is_an_unknown_server_error() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR


@each("code", ErrorCode)
def test_every_code_has_a_grpc_status_and_a_sentence(code: ErrorCode) -> None:
    assert code.status in grpc.StatusCode.__members__
    assert (code.status == "OK") == (code is ErrorCode.NONE)
    assert code.text.endswith(".")
    assert KafkaError(code).retriable == code.retriable


@pytest.mark.parametrize(
    "status", ["INVALID_ARGUMENT", "PERMISSION_DENIED", "UNIMPLEMENTED", "ALREADY_EXISTS"]
)
def test_permanent_status_is_not_retriable(status: str) -> None:
    codes = [code for code in ErrorCode if code.status == status]
    assert codes
    assert not any(code.retriable for code in codes)


def test_unavailable_server_is_retriable() -> None:
    assert all(code.retriable for code in ErrorCode if code.status == "UNAVAILABLE")


def test_an_error_has_the_text_of_the_table_unless_it_has_its_own() -> None:
    code = ErrorCode.NOT_COORDINATOR
    assert KafkaError(code).message == code.text
    assert str(KafkaError(code, "Shard 3 moved.")) == "NOT_COORDINATOR: Shard 3 moved."


def test_an_error_copies_its_metadata() -> None:
    metadata = {"offset": "7"}
    error = KafkaError(ErrorCode.INVALID_RECORD_STATE, metadata=metadata)
    error.metadata["reason"] = "lock lost"
    assert metadata == {"offset": "7"}
    assert (error.violations, error.retry_after) == ((), None)
