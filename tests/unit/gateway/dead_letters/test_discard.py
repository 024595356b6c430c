"""Discards: up to which offset each partition is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_server.gateway.dead_letters import reading
from sharebroker_server.gateway.dead_letters.discard import discard_letters
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import LetterLogs
from tests.unit.record_log.harness import code_of


async def discarded(harness: Harness, **fields: Any) -> list[tuple[int, int, int]]:
    """Partition, offset and letters of each part, of all calls."""
    request = pb.DiscardDeadLettersRequest(**{"topic": "flights"} | fields)
    found = []
    while True:
        response = await discard_letters(harness.gateway, request, Deadline(30))
        found += [(part.partition, part.before_offset, part.letters) for part in response.partitions]
        if not response.next_page_token:
            return found
        request.page_token = response.next_page_token


async def test_all_letters_are_deleted(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1, 2)
    logs.letters(1, 3)
    assert await discarded(harness) == [(0, 2, 2), (1, 1, 1)]
    assert logs.deleted == [(0, 2), (1, 1)]
    assert await discarded(harness) == []


async def test_a_partition_is_deleted_up_to_the_first_other_letter(
    harness: Harness, logs: LetterLogs
) -> None:
    logs.letters(0, 1, 2)
    logs.letters(0, 3, group="h")
    logs.letters(0, 4)
    logs.letters(1, 5, group="h")
    assert await discarded(harness, filter=pb.DeadLetterFilter(group_id="g")) == [(0, 2, 2)]
    assert logs.deleted == [(0, 2)]


async def test_other_records_are_kept(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1)
    logs.append(0, (None, b"no letter", []))
    logs.letters(1, 2)
    assert await discarded(harness) == [(0, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize("check", [True, False])
async def test_a_partition_may_need_several_calls(
    harness: Harness, logs: LetterLogs, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1)
    logs.letters(0, 1, 2, 3)
    assert sum(letters for *_, letters in await discarded(harness, validate_only=check)) == 3
    assert logs.starts.get(0, 0) == (0 if check else 3)


async def test_a_token_never_deletes_letters_before_it_unread(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1, group="h")
    logs.letters(0, 2)
    assert await discarded(harness, page_token="0:1:0", filter=pb.DeadLetterFilter(group_id="g")) == []
    assert not logs.deleted


async def test_errors_are_returned(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1)

    async def failing(request: Any, context: Any) -> Any:
        logs.error = ErrorCode.KAFKA_STORAGE_ERROR
        return await LetterLogs.DeleteRecords(logs, request, context)

    harness.leader.DeleteRecords = failing  # type: ignore[attr-defined]
    request = pb.DiscardDeadLettersRequest(topic="flights")
    (part,) = (await discard_letters(harness.gateway, request, Deadline(30))).partitions
    assert ErrorCode(part.error_code) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_invalid_requests_are_rejected(harness: Harness, logs: LetterLogs) -> None:
    assert await code_of(discarded(harness, topic="none")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await code_of(discarded(harness, page_token="x")) is ErrorCode.INVALID_REQUEST
