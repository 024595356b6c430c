"""Batch requests: invalid items are rejected, the rest is forwarded together."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.helpers.per_item import duplicate_check, each_item, error_fields


@dataclass
class Result:
    name: str
    error_code: int = 0
    error_message: str = ""


def translate(name: str) -> str:
    if name == "invalid":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return name.upper()


async def test_results_keep_the_order_of_items() -> None:
    sent = []

    async def send(names: list[str]) -> list[Result]:
        sent.append(names)
        return [Result(name, error_code=ErrorCode.POLICY_VIOLATION if name == "B" else 0) for name in names]

    first, second, third = await each_item(["a", "invalid", "b"], translate, send)
    assert sent == [["A", "B"]]
    assert isinstance(first, Result)
    assert first.name == "A"
    assert isinstance(second, KafkaError)
    assert second.code is ErrorCode.INVALID_REQUEST
    assert isinstance(third, KafkaError)
    assert third.code is ErrorCode.POLICY_VIOLATION


async def test_nothing_is_sent_without_a_valid_item() -> None:
    async def send(names: list[str]) -> list[Result]:
        raise NotImplementedError

    (only,) = await each_item(["invalid"], translate, send)
    assert isinstance(only, KafkaError)


def test_duplicates_are_rejected() -> None:
    check = duplicate_check(["a", "b", "b"], "topic name")
    check("a")
    with pytest.raises(KafkaError, match="Duplicate topic name: b"):
        check("b")


def test_error_fields_of_errors_only() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "no")
    assert error_fields(error) == {"error_code": ErrorCode.INVALID_REQUEST, "error_message": "no"}
    assert error_fields(Result("a")) == {}
