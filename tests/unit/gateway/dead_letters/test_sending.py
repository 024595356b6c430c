"""The requests to the leaders of the targets of letters, and their results."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_server.gateway.dead_letters.redrive import redrive_letters
from sharebroker_server.gateway.dead_letters.sending import MOST_BYTES
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import ORDERS, SOURCE, LetterLogs, headers_of
from tests.unit.gateway.fakes import TOPIC


async def redriven(harness: Harness, **fields: Any) -> pb.RedriveDeadLettersResponse:
    request = pb.RedriveDeadLettersRequest(**{"topic": "flights"} | fields)
    return await redrive_letters(harness.gateway, request, Deadline(30))


async def test_letters_return_to_their_groups(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7, 8)
    logs.letters(1, 9, group="h")
    response = await redriven(harness)
    assert [(each.letter.source_offset, each.copy_offset) for each in response.results] == [
        (7, 100),
        (8, 101),
        (9, 100),
    ]
    assert {(each.target_topic, each.target_partition) for each in response.results} == {("orders", 1)}
    assert (response.next_page_token, response.scanned) == ("", 3)
    first, second = logs.redriven
    assert (first.group_id, first.request_id) == ("g", f"{TOPIC.topic_id}/0/")
    assert (second.group_id, second.request_id) == ("h", f"{TOPIC.topic_id}/1/")
    (part,) = first.partitions
    assert (part.topic_id, part.partition) == (ORDERS.topic_id, 1)
    assert [(one.letter_offset, one.source, one.source_offset) for one in part.records] == [
        (0, "orders/1/7", 7),
        (1, "orders/1/8", 8),
    ]
    assert (part.records[0].key, part.records[0].value) == (b"k", b"value")


async def test_each_letter_has_its_own_error(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7)
    logs.letters(0, 8, topic="none")
    logs.letters(0, 9)
    logs.failing = {2}
    with capture_logs() as written:
        response = await redriven(harness)
    assert [(ErrorCode(each.error_code), each.copy_offset) for each in response.results] == [
        (ErrorCode.NONE, 100),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.MESSAGE_TOO_LARGE, -1),
    ]
    assert [(line["outcome"], line.get("letters")) for line in written] == [
        ("success", [0]),
        ("MESSAGE_TOO_LARGE", None),
    ]
    assert {(line["operation"], line["resource"]) for line in written} == {("RedriveDeadLetters", "flights")}


async def test_an_error_of_the_target_is_that_of_its_letters(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7)

    async def failing(request: Any, context: Any) -> Any:
        logs.error = ErrorCode.KAFKA_STORAGE_ERROR
        return await LetterLogs.RedriveRecords(logs, request, context)

    harness.leader.RedriveRecords = failing  # type: ignore[attr-defined]
    (result,) = (await redriven(harness)).results
    assert (ErrorCode(result.error_code), result.target_topic) == (ErrorCode.KAFKA_STORAGE_ERROR, "orders")


async def test_a_check_is_not_a_change(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7)
    with capture_logs() as written:
        (result,) = (await redriven(harness, validate_only=True)).results
    assert (result.copy_offset, logs.redriven[0].validate_only, written) == (-1, True, [])


async def test_records_from_the_source_are_sent_in_portions(harness: Harness, logs: LetterLogs) -> None:
    for offset in range(3):
        logs.append(SOURCE + 1, (None, bytes(MOST_BYTES // 2), []))
        logs.append(0, (None, None, headers_of(offset, copy="off")))
    results = (await redriven(harness)).results
    assert [result.copy_offset for result in results] == [100, 101, 102]
    assert [len(request.partitions[0].records) for request in logs.redriven] == [2, 1]
