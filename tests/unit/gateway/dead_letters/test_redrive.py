"""Redrives: what is sent to which leader, the results, pages and invalid requests."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_server.gateway.dead_letters import redrive
from sharebroker_server.gateway.dead_letters.redrive import redrive_letters
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import ORDERS, LetterLogs
from tests.unit.gateway.fakes import TOPIC
from tests.unit.record_log.harness import code_of


async def redriven(harness: Harness, **fields: Any) -> pb.RedriveDeadLettersResponse:
    request = pb.RedriveDeadLettersRequest(**{"topic": "flights"} | fields)
    return await redrive_letters(harness.gateway, request, Deadline(30))


@pytest.mark.parametrize(
    ("target", "topic", "partition"),
    [({"to_source_topic": True}, ORDERS, 1), ({"to_topic": "orders"}, ORDERS, 1)],
)
async def test_letters_may_go_to_all_groups_of_a_topic(
    harness: Harness, logs: LetterLogs, target: dict[str, Any], topic: Any, partition: int
) -> None:
    logs.letters(0, 7)
    await redriven(harness, request_id="again", **target)
    (sent,) = logs.redriven
    assert (sent.group_id, sent.request_id) == ("", f"{TOPIC.topic_id}/0/again")
    assert [(part.topic_id, part.partition) for part in sent.partitions] == [(topic.topic_id, partition)]


async def test_a_redrive_is_continued_page_by_page(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7, 8)
    logs.letters(0, 6, group="h")
    logs.letters(1, 9)
    found, token = [], ""
    for _ in range(9):
        page = await redriven(
            harness, max_letters=1, page_token=token, filter=pb.DeadLetterFilter(group_id="g")
        )
        found += [each.letter.source_offset for each in page.results]
        token = page.next_page_token
        if not token:
            break
    assert found == [7, 8, 9]


async def test_large_letters_are_sent_in_portions(
    harness: Harness, logs: LetterLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "MOST_BYTES", 10)
    logs.letters(0, 7, 8, 9)
    page = await redriven(harness)
    assert len(page.results) == 2
    assert page.next_page_token


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"max_letters": 1001}, ErrorCode.INVALID_REQUEST),
        ({"request_id": "a/b"}, ErrorCode.INVALID_REQUEST),
        ({"to_topic": "flights"}, ErrorCode.INVALID_REQUEST),
        ({"to_topic": ""}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"to_topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"to_topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"page_token": "x"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_requests_are_rejected(
    harness: Harness, logs: LetterLogs, fields: dict[str, Any], code: ErrorCode
) -> None:
    logs.letters(0, 7)
    assert await code_of(redriven(harness, **fields)) is code
    assert not logs.redriven
