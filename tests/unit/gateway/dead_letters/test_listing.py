"""Lists, summaries and single letters."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_server.gateway.dead_letters import listing
from sharebroker_server.gateway.dead_letters.listing import get_letter, list_letters, summarize_letters
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import LetterLogs, headers_of
from tests.unit.record_log.harness import code_of


async def listed(harness: Harness, **fields: Any) -> pb.ListDeadLettersResponse:
    request = pb.ListDeadLettersRequest(**{"topic": "flights"} | fields)
    return await list_letters(harness.gateway, request, Deadline(30))


async def test_letters_are_listed_with_the_facts_in_their_headers(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7)
    logs.append(0, (None, b"no letter", []))
    page = await listed(harness)
    assert (page.next_page_token, page.scanned) == ("", 2)
    (letter,) = page.letters
    assert (letter.partition, letter.offset, letter.timestamp_ms) == (0, 0, 1000)
    assert (letter.group_id, letter.source_topic, letter.source_partition) == ("g", "orders", 1)
    assert (letter.source_offset, letter.delivery_count, letter.reason) == (7, 5, "no account 7")
    assert letter.disposition == admin.DISPOSITION_REJECTED
    assert (letter.copy, letter.key_size, letter.value_size) == ("full", 1, 5)


async def test_pages_are_continued(
    harness: Harness, logs: LetterLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.letters(0, 1, 2, 3)
    logs.letters(1, 4, 5)
    found, token = [], ""
    for _ in range(9):
        page = await listed(harness, page_size=2, page_token=token)
        found += [letter.source_offset for letter in page.letters]
        token = page.next_page_token
        if not token:
            break
    assert found == [1, 2, 3, 4, 5]
    monkeypatch.setattr(listing, "PAGE_BYTES", 1)
    assert len((await listed(harness)).letters) == 1


@pytest.mark.parametrize(
    ("conditions", "offsets"),
    [
        ({"group_id": "g"}, [1]),
        ({"source_topic": "other"}, [2]),
        ({"source_partition": 0}, [3]),
        ({"disposition": admin.DISPOSITION_EXPIRED}, [4]),
        ({"reason": "ACCOUNT 2"}, [2]),
        ({"from_ms": 2000}, [3, 4]),
        ({"before_ms": 2000, "source_topic": "orders"}, [1]),
    ],
)
async def test_a_filter_selects(
    harness: Harness, logs: LetterLogs, conditions: dict[str, Any], offsets: list[int]
) -> None:
    logs.letters(0, 1)
    logs.letters(0, 2, topic="other", group="h")
    logs.letters(0, 3, partition="0", group="h", time=2000)
    logs.letters(0, 4, disposition="RECORD_EXPIRED", group="h", time=2000)
    page = await listed(harness, filter=pb.DeadLetterFilter(**conditions))
    assert [letter.source_offset for letter in page.letters] == offsets


async def test_a_summary_has_a_row_per_reason(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1, 2)
    logs.letters(1, 3, time=500)
    logs.letters(1, 4, reason="other")
    request = pb.SummarizeDeadLettersRequest(topic="flights")
    summary = await summarize_letters(harness.gateway, request, Deadline(30))
    first, second = summary.rows
    assert (first.group_id, first.source_topic, first.reason) == ("g", "orders", "no account #")
    assert (first.letters, first.oldest_ms, first.newest_ms) == (3, 500, 1000)
    assert (first.disposition, first.example_partition, first.example_offset, first.other) == (1, 0, 0, False)
    assert (second.reason, second.letters) == ("other", 1)
    assert (summary.scanned, summary.next_page_token) == (4, "")
    request.max_rows = 1
    rows = (await summarize_letters(harness.gateway, request, Deadline(30))).rows
    assert [(row.letters, row.other) for row in rows] == [(3, False), (1, True)]


async def test_one_letter_is_shown(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7)
    request = pb.GetDeadLetterRequest(topic="flights")
    found = await get_letter(harness.gateway, request, Deadline(30))
    assert (found.letter.source_offset, found.key, found.value, found.truncated) == (7, b"k", b"value", False)
    assert (found.headers[-1].key, found.headers[-1].value) == ("x", b"1")
    request.max_bytes = 3
    found = await get_letter(harness.gateway, request, Deadline(30))
    assert (found.key, found.value, found.truncated, len(found.headers)) == (b"k", b"val", True, 0)


async def test_a_letter_without_a_copy_has_no_value(harness: Harness, logs: LetterLogs) -> None:
    logs.append(0, (None, None, headers_of(7, copy="off")))
    found = await get_letter(harness.gateway, pb.GetDeadLetterRequest(topic="flights"), Deadline(30))
    assert not found.HasField("key")
    assert not found.HasField("value")
    assert (found.letter.key_size, found.letter.value_size) == (-1, -1)


@pytest.mark.parametrize("offset", [1, 2])
async def test_there_may_be_no_letter(harness: Harness, logs: LetterLogs, offset: int) -> None:
    logs.letters(0, 7)
    logs.append(0, (None, b"no letter", []))
    request = pb.GetDeadLetterRequest(topic="flights", offset=offset)
    assert await code_of(get_letter(harness.gateway, request, Deadline(5))) is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"page_size": 1001}, ErrorCode.INVALID_REQUEST),
        ({"page_size": -1}, ErrorCode.INVALID_REQUEST),
        ({"page_token": "x"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_requests_are_rejected(
    harness: Harness, logs: LetterLogs, fields: dict[str, Any], code: ErrorCode
) -> None:
    assert await code_of(listed(harness, **fields)) is code


@pytest.mark.parametrize(
    "fields", [{"partition": 2}, {"partition": -1}, {"offset": -1}, {"max_bytes": (1 << 20) + 1}]
)
async def test_invalid_places_are_rejected(
    harness: Harness, logs: LetterLogs, fields: dict[str, int]
) -> None:
    request = pb.GetDeadLetterRequest(topic="flights", **fields)
    assert await code_of(get_letter(harness.gateway, request, Deadline(5))) is ErrorCode.INVALID_REQUEST
