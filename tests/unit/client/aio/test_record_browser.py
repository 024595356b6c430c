"""Stored records are selected by key and header, and read until the end of a range."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sharebroker.aio.record_browser import BrowsedRecord, RecordBrowser, RecordFilter
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import TopicPartition
from tests.testkit.tables import each
from tests.unit.client.batches import batch, control_batch

PLACE = TopicPartition("flights", 0)
RECORD = BrowsedRecord("flights", 0, 7, 1000, b"ada", b"v", (("a", b"1"), ("a", b"2"), ("b", None)))


@each(
    "where, selected",
    [
        (RecordFilter(), True),
        (RecordFilter(key=b"ada"), True),
        (RecordFilter(key=b"bob"), False),
        (RecordFilter(key=b""), False),
        (RecordFilter(header="a"), True),
        (RecordFilter(header="b"), True),
        (RecordFilter(header="c"), False),
        (RecordFilter(header="a", header_value=b"2"), True),
        (RecordFilter(header="a", header_value=b"3"), False),
        (RecordFilter(header="b", header_value=b""), False),
        (RecordFilter(key=b"ada", header="c"), False),
    ],
)
def test_filter_needs_all_conditions(where: RecordFilter, selected: bool) -> None:
    assert where.selects(RECORD) is selected


class Log:
    """Serves one batch per request: offsets 0 and 1, a transaction marker at 2, offset 3; no record after."""

    def __init__(self) -> None:
        self.requests: list[pb.ReadRangeRequest] = []

    async def ReadRange(self, request: pb.ReadRangeRequest, **_: Any) -> pb.ReadRangeResponse:
        self.requests.append(request)
        first = request.range.first_offset
        batches = {0: batch(0, [b"a", b"b"]), 1: batch(0, [b"a", b"b"]), 2: control_batch(2)}
        ends = {0: 2, 1: 2, 2: 3, 3: 4}
        data = batches.get(first, batch(3, [b"d"]) if first == 3 else b"")
        return pb.ReadRangeResponse(record_batches=data, next_offset=ends.get(first, first))


@pytest.fixture
async def browser() -> Any:
    async with RecordBrowser("127.0.0.1:1") as created:
        yield created


@pytest.fixture
def log(browser: RecordBrowser) -> Log:
    found = Log()
    browser._connection.plans = SimpleNamespace(ReadRange=found.ReadRange)  # type: ignore[assignment]
    return found


@each(
    "first, end, offsets, requests",
    [(0, 9, [0, 1, 3], 4), (1, 4, [1, 3], 3), (0, 1, [0], 1), (2, 3, [], 1), (4, 9, [], 1), (5, 5, [], 0)],
)
async def test_range_is_read_to_its_end_or_that_of_the_log(
    browser: RecordBrowser, log: Log, first: int, end: int, offsets: list[int], requests: int
) -> None:
    log.requests.clear()
    progress: list[int] = []
    found = [record async for record in browser.read(PLACE, first, end, progress.append)]
    assert [record.offset for record in found] == offsets
    assert len(log.requests) == requests
    assert progress == sorted(progress)
    assert all(request.committed and request.range.last_offset == end - 1 for request in log.requests)


async def test_record_is_returned_with_its_content(browser: RecordBrowser, log: Log) -> None:
    assert await browser.get(PLACE, 1) == BrowsedRecord("flights", 0, 1, 1001, b"k", b"b")
    assert len(log.requests) == 1


@pytest.mark.parametrize("offset", [2, 8])
async def test_offset_without_a_record_is_an_error(browser: RecordBrowser, log: Log, offset: int) -> None:
    with pytest.raises(KafkaError, match=f"no record at offset {offset}") as failed:
        await browser.get(PLACE, offset)
    assert failed.value.code is ErrorCode.RESOURCE_NOT_FOUND
    assert log.requests
