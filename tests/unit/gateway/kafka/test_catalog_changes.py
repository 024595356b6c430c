"""Requests that change several items, and checks of replica assignments."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns
from sharebroker_server.gateway.kafka.catalog_changes import (
    check_assignments,
    check_numbering,
    check_replication_factor,
    duplicate_check,
    each_item,
)


@dataclass
class Result:
    name: str
    error_code: int = 0
    error_message: str = ""


def translate(name: str) -> str:
    if name == "invalid":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return name.upper()


def succeeded(name: str, result: Result) -> tuple[str, object]:
    return name, result.name


def failed(name: str, error: KafkaError) -> tuple[str, object]:
    return name, error.code


async def test_results_keep_the_order_of_items() -> None:
    sent = []

    async def send(names: list[str]) -> list[Result]:
        sent.append(names)
        return [Result(name, error_code=ErrorCode.POLICY_VIOLATION if name == "B" else 0) for name in names]

    first, second, third = await each_item(Turns(), ["a", "invalid", "b"], translate, send, succeeded, failed)
    assert sent == [["A", "B"]]
    assert first == ("a", "A")
    assert second == ("invalid", ErrorCode.INVALID_REQUEST)
    assert third == ("b", ErrorCode.POLICY_VIOLATION)


async def test_other_requests_are_served_between_portions_of_items() -> None:
    async def send(names: list[str]) -> list[Result]:
        return [Result(name) for name in names]

    many = asyncio.ensure_future(each_item(Turns(), ["a"] * 500, translate, send, succeeded, failed))
    few = await each_item(Turns(), ["b"], translate, send, succeeded, failed)
    assert few == [("b", "B")]
    assert not many.done()
    assert await many == [("a", "A")] * 500


async def test_nothing_is_sent_without_a_valid_item() -> None:
    async def send(names: list[str]) -> list[Result]:
        raise NotImplementedError

    only = await each_item(Turns(), ["invalid"], translate, send, succeeded, failed)
    assert only == [("invalid", ErrorCode.INVALID_REQUEST)]


def test_duplicates_are_rejected() -> None:
    check = duplicate_check(["a", "b", "b"], "topic name")
    check("a")
    with pytest.raises(KafkaError, match="Duplicate topic name: b"):
        check("b")


def test_valid_placements_are_accepted() -> None:
    check_replication_factor(-1, [1])
    check_replication_factor(2, [1, 2])
    check_assignments([[1, 2], [2, 1]], [1, 2])
    check_numbering([1, 0, 2])


@pytest.mark.parametrize("factor", [0, -2, 3])
def test_invalid_replication_factors_are_rejected(factor: int) -> None:
    with pytest.raises(KafkaError) as error:
        check_replication_factor(factor, [1, 2])
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "assignments", [[[]], [[1, 1]], [[3]], [[1], [1, 2]]], ids=["empty", "twice", "unknown", "uneven"]
)
def test_invalid_assignments_are_rejected(assignments: list[list[int]]) -> None:
    with pytest.raises(KafkaError) as error:
        check_assignments(assignments, [1, 2])
    assert error.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("partitions", [[1], [0, 2], [0, 0]])
def test_partitions_are_numbered_without_gaps(partitions: list[int]) -> None:
    with pytest.raises(KafkaError) as error:
        check_numbering(partitions)
    assert error.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
