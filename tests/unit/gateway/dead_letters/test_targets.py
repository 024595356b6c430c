"""Where the record of a letter goes, and what is delivered."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.core.dead_letters import LetterRecord, ReadLetter, parse
from sharebroker_server.gateway.dead_letters.targets import PlacedRecord, Targets, permitted
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import ORDERS, SOURCE, LetterLogs, headers_of
from tests.unit.record_log.harness import code_of


def letter(offset: int = 0, *, value: bytes | None = b"value", **values: str) -> ReadLetter:
    headers = [*headers_of(offset, **values), ("x", b"1"), ("null", None)]
    facts = parse(headers)
    assert facts is not None
    return ReadLetter(LetterRecord(0, 50, 1000, None, value, headers), facts)


async def placed(harness: Harness, one: ReadLetter, denial: Any = permitted, **fields: Any) -> PlacedRecord:
    request = pb.RedriveDeadLettersRequest(topic="flights", **fields)
    return await Targets(harness.gateway, request, denial).place(one, Deadline(5))


def headers(one: PlacedRecord) -> dict[str, bytes | None]:
    return {each.key: each.value if each.HasField("value") else None for each in one.record.headers}


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({}, ("orders", 1, "g")),
        ({"to_source_topic": False}, ("orders", 1, "g")),
        ({"to_source_topic": True}, ("orders", 1, "")),
        ({"to_topic": "flights"}, ("flights", 0, "")),
    ],
)
async def test_the_target_of_a_letter(
    harness: Harness, logs: LetterLogs, fields: dict[str, Any], target: tuple[str, int, str]
) -> None:
    partition = "2" if "to_topic" in fields else "1"
    one = await placed(harness, letter(partition=partition), **fields)
    assert (one.topic.name, one.partition, one.group_id) == target
    assert (one.record.letter_offset, one.record.source_offset, one.size) == (50, 0, 5)


async def test_a_record_keeps_its_headers_hops_and_origin(harness: Harness, logs: LetterLogs) -> None:
    one = await placed(harness, letter(hops="2", origin="first/0/1"))
    assert headers(one) == {
        "x": b"1",
        "null": None,
        "__dlq.errors.hops": b"2",
        "__dlq.errors.origin": b"first/0/1",
    }
    assert (one.record.HasField("key"), one.record.value) == (False, b"value")


async def test_a_letter_without_a_copy_is_read_from_the_source(harness: Harness, logs: LetterLogs) -> None:
    logs.append(SOURCE + 1, (b"a", b"first", []), (b"k", None, [("own", b"1")]))
    one = await placed(harness, letter(1, value=None, copy="off"))
    assert (one.record.key, one.record.HasField("value")) == (b"k", False)
    assert headers(one) == {
        "own": b"1",
        "__dlq.errors.hops": b"1",
        "__dlq.errors.origin": b"orders/1/1",
    }


@pytest.mark.parametrize("copy", ["off", "gone", "too_large", ""])
async def test_a_record_may_be_in_neither_letter_nor_source(
    harness: Harness, logs: LetterLogs, copy: str
) -> None:
    logs.append(SOURCE + 1, (b"a", b"first", []))
    logs.starts[SOURCE + 1] = 1
    one = letter(0, value=None, copy=copy)
    assert await code_of(placed(harness, one)) is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("topic_id", "copy", "code"),
    [
        ("", "off", ErrorCode.NONE),
        (ORDERS.topic_id, "off", ErrorCode.NONE),
        ("D" * 22, "off", ErrorCode.RESOURCE_NOT_FOUND),
        ("D" * 22, "gone", ErrorCode.RESOURCE_NOT_FOUND),
        ("D" * 22, "full", ErrorCode.NONE),
    ],
)
async def test_a_topic_that_was_created_again_is_not_the_source(
    harness: Harness, logs: LetterLogs, topic_id: str, copy: str, code: ErrorCode
) -> None:
    logs.append(SOURCE + 1, (b"a", b"of the present topic", []))
    one = letter(0, topic_id=topic_id, copy=copy, value=b"value" if copy == "full" else None)
    if code is ErrorCode.NONE:
        value = b"value" if copy == "full" else b"of the present topic"
        assert (await placed(harness, one)).record.value == value
    else:
        assert await code_of(placed(harness, one)) is code


@pytest.mark.parametrize(
    ("hops", "reset", "redriven"), [("2", False, True), ("3", False, False), ("3", True, True)]
)
async def test_hops_are_bounded(
    harness: Harness, logs: LetterLogs, hops: str, reset: bool, redriven: bool
) -> None:
    call = placed(harness, letter(hops=hops), reset_hops=reset)
    if not redriven:
        assert await code_of(call) is ErrorCode.INVALID_RECORD_STATE
    else:
        assert headers(await call)["__dlq.errors.hops"] == (b"0" if reset else hops.encode())


@pytest.mark.parametrize("values", [{"topic": "none"}, {"partition": "3"}])
async def test_the_target_may_not_exist(harness: Harness, logs: LetterLogs, values: dict[str, Any]) -> None:
    assert await code_of(placed(harness, letter(**values))) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_unknown_group_is_found_out_once(harness: Harness, logs: LetterLogs) -> None:
    calls = []

    async def unknown(request: group.ShareGroupDescribeRequest, _: Any) -> group.ShareGroupDescribeResponse:
        calls.append(request)
        response = group.ShareGroupDescribeResponse()
        response.groups.add(group_id="g", error_code=int(ErrorCode.GROUP_ID_NOT_FOUND))
        return response

    harness.coordinator.ShareGroupDescribe = unknown  # type: ignore[method-assign, assignment]
    targets = Targets(harness.gateway, pb.RedriveDeadLettersRequest(topic="flights"), permitted)
    for _ in range(2):
        assert await code_of(targets.place(letter(), Deadline(5))) is ErrorCode.GROUP_ID_NOT_FOUND
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("denied", "copy", "fields", "code"),
    [
        ((AclOperation.READ, "g"), "full", {}, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((AclOperation.READ, "g"), "full", {"to_source_topic": True}, ErrorCode.NONE),
        ((AclOperation.WRITE, "orders"), "full", {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ((AclOperation.WRITE, "orders"), "full", {"to_topic": "flights"}, ErrorCode.NONE),
        (
            (AclOperation.WRITE, "flights"),
            "full",
            {"to_topic": "flights"},
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
        ((AclOperation.READ, "orders"), "off", {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ((AclOperation.READ, "orders"), "full", {}, ErrorCode.NONE),
    ],
)
async def test_the_caller_needs_rights_to_group_and_topics(
    harness: Harness,
    logs: LetterLogs,
    denied: tuple[AclOperation, str],
    copy: str,
    fields: dict[str, Any],
    code: ErrorCode,
) -> None:
    def denial(operation: AclOperation, kind: AclResourceType, name: str) -> KafkaError | None:
        failed = {AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        found = failed.get(kind, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return KafkaError(found) if (operation, name) == denied else None

    call = placed(harness, letter(copy=copy), denial, **fields)
    if code is ErrorCode.NONE:
        await call
    else:
        assert await code_of(call) is code
