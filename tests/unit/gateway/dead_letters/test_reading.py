"""The scan of a dead letter topic: its order, its bounds, and what it leaves out."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.core.dead_letters import ScanPosition
from sharebroker_server.gateway.dead_letters import reading
from sharebroker_server.gateway.dead_letters.reading import LetterScan, position_of, record_at
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import LetterLogs
from tests.unit.gateway.fakes import TOPIC
from tests.unit.record_log.harness import code_of


def scan_of(harness: Harness, token: str = "", fetch_bytes: int = 1) -> LetterScan:
    return LetterScan(harness.gateway, TOPIC, position_of(TOPIC, token), Deadline(30), fetch_bytes)


async def places(scan: LetterScan) -> list[tuple[int, int]]:
    return [record[:2] async for record in scan.records()]


@pytest.mark.parametrize("fetch_bytes", [1, 1 << 20])
async def test_all_records_are_read_by_partition_and_offset(
    harness: Harness, logs: LetterLogs, fetch_bytes: int
) -> None:
    logs.letters(0, 5, 6)
    logs.append(1, *[(None, b"x", [])] * 3, codec="gzip")
    scan = scan_of(harness, fetch_bytes=fetch_bytes)
    assert await places(scan) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert (scan.position, scan.token, scan.scanned) == (None, "", 5)


async def test_a_scan_continues_behind_the_last_record(harness: Harness, logs: LetterLogs) -> None:
    logs.append(0, *[(None, b"x", [])] * 3)
    logs.letters(1, 5)
    found, token = [], ""
    while True:
        scan = scan_of(harness, token)
        async with aclosing(scan.records()) as records:
            record = await anext(records, None)
        if record is None:
            break
        found.append(record[:2])
        token = scan.token
    assert found == [(0, 0), (0, 1), (0, 2), (1, 0)]


async def test_a_partition_is_read_up_to_its_end_at_the_first_call(
    harness: Harness, logs: LetterLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_RECORDS", 1)
    logs.letters(0, 1, 2)
    scan = scan_of(harness)
    assert await places(scan) == [(0, 0)]
    logs.letters(0, 3)
    found = []
    while scan.token:
        scan = scan_of(harness, scan.token)
        found += await places(scan)
    assert found == [(0, 1)]


@pytest.mark.parametrize("bound", ["MOST_RECORDS", "MOST_BYTES"])
async def test_a_part_is_bounded(
    harness: Harness, logs: LetterLogs, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    logs.letters(0, *range(5))
    monkeypatch.setattr(reading, bound, 2)
    scan, sizes = scan_of(harness), []
    while True:
        sizes.append(len(await places(scan)))
        if not scan.token:
            break
        scan = scan_of(harness, scan.token)
    assert sum(sizes) == 5
    assert max(sizes) <= 2


async def test_a_part_ends_with_its_time(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1)
    scan = LetterScan(harness.gateway, TOPIC, ScanPosition(), Deadline(0))
    assert await places(scan) == []
    assert scan.position == ScanPosition()


async def test_deleted_records_are_passed(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, *range(4))
    logs.starts[0] = 2
    assert await places(scan_of(harness)) == [(0, 2), (0, 3)]
    assert await places(scan_of(harness, "0:9:9")) == [], "the topic was created again"


async def test_an_unreadable_batch_is_passed(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 1)
    logs.append(0, (None, b"x" * 100, []), codec="gzip")
    logs.letters(0, 2)
    broken = bytearray(logs.batches[0][1])
    broken[80:] = bytes(len(broken) - 80)
    logs.batches[0][1] = bytes(broken)
    assert await places(scan_of(harness)) == [(0, 0), (0, 2)]


async def test_an_error_of_a_leader_is_raised(harness: Harness, logs: LetterLogs) -> None:
    logs.error = ErrorCode.KAFKA_STORAGE_ERROR
    assert await code_of(places(scan_of(harness))) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("offset", "found"), [(0, True), (1, True), (2, False), (99, False)])
async def test_one_record_is_read(harness: Harness, logs: LetterLogs, offset: int, found: bool) -> None:
    logs.letters(0, 7, 8)
    logs.letters(1, 9)
    record = await record_at(harness.gateway, TOPIC, 0, offset, Deadline(5))
    assert (record is not None and record.offset == offset) is found


async def test_a_deleted_record_is_not_found(harness: Harness, logs: LetterLogs) -> None:
    logs.letters(0, 7, 8)
    logs.starts[0] = 1
    assert await record_at(harness.gateway, TOPIC, 0, 0, Deadline(5)) is None


@pytest.mark.parametrize("token", ["x", "2:0:0"])
async def test_other_tokens_are_rejected(harness: Harness, token: str) -> None:
    async def parse() -> None:
        position_of(TOPIC, token)

    assert await code_of(parse()) is ErrorCode.INVALID_REQUEST
