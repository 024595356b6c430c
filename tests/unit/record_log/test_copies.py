"""Copies of records in a log: appends, repetition, fail-over, lost data, retention, message ids."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import MESSAGE_ID_HEADER
from sharebroker_protocol.records.record import FOR_GROUP_HEADER, RETRY_OF_HEADER
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.copies import (
    CopySource,
    append_copies,
    encoded,
    read_sources,
    uncompressed,
)
from sharebroker_server.record_log.core.addressed import (
    AlreadyCopiedError,
    CopiedRun,
    CopyAddress,
    copied,
    hidden_from,
)
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch, identified
from tests.unit.record_log.harness import NOW, Harness, code_of, until_open

MS = int(NOW * 1000)
TO_A = CopyAddress("a", "request-1")


async def retried(log: PartitionLog, *offsets: int, address: CopyAddress = TO_A) -> Appended:
    """Copies small records."""
    sources = [CopySource(offset, None, b"x", ()) for offset in offsets]
    data, taken = encoded(sources, address, "orders/0", 1 << 20, MS)
    assert taken == list(offsets)
    return await append_copies(log, data, taken, address)


def hidden(log: PartitionLog, group: str = "b") -> list[tuple[int, int]]:
    return list(hidden_from(log.transactions.notes, group, log.log_start_offset, log.log_end_offset))


async def test_copies_are_hidden_also_after_a_failover(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(4))
    assert await retried(log, 1, 3) == Appended(4, 5, -1)
    await log.append(batch(1))
    for _ in range(2):
        assert (hidden(log), hidden(log, "a")) == ([(4, 5)], [])
        assert copied(log.transactions.notes.items(), "a") == [CopiedRun(1, 1, 4), CopiedRun(3, 3, 5)]
        log = await harness.open()


async def test_a_repeated_request_appends_nothing(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(2))
    await retried(log, 0)
    for _ in range(2):
        with pytest.raises(AlreadyCopiedError):
            await retried(log, 0)
        log = await harness.open()
    assert log.log_end_offset == 3
    assert (await retried(log, 0, address=CopyAddress("a", "request-2"))).base_offset == 3


async def test_two_equal_requests_in_one_write_append_once(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(1))
    outcomes = await asyncio.gather(retried(log, 0), retried(log, 0), return_exceptions=True)
    assert outcomes[0] == Appended(1, 1, -1)
    assert isinstance(outcomes[1], AlreadyCopiedError)


async def test_a_failed_append_leaves_no_trace(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(1))
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(retried(log, 0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not hidden(log)
    assert await retried(log, 0) == Appended(1, 1, -1)


@pytest.mark.parametrize("fault", [Fault.DONE_UNKNOWN, Fault.LOST_UNKNOWN])
async def test_after_an_unknown_outcome_a_repeated_request_copies_once(
    harness: Harness, fault: Fault
) -> None:
    log = await harness.open()
    await log.append(batch(1))
    harness.store.fail_next_append(fault)
    assert await code_of(retried(log, 0)) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    if fault is Fault.DONE_UNKNOWN:
        with pytest.raises(AlreadyCopiedError):
            await retried(log, 0)
    else:
        await retried(log, 0)
    assert hidden(log) == [(1, 1)]
    assert log.log_end_offset == 2


async def test_retention_removes_the_addresses_with_the_records(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(1))
    await retried(log, 0)
    await retried(log, 0, address=CopyAddress("b", "request-1"))
    await log.delete_records(2)
    assert (hidden(log), hidden(log, "a")) == ([], [(2, 2)])
    await log.delete_records(3)
    log = await harness.open()
    assert not log.transactions.notes.attached


async def test_the_message_id_of_a_copy_does_not_count(harness: Harness) -> None:
    """Else a record that is published again after the window would be taken for a duplicate of the copy."""
    settings = LogSettings(dedup_window_ms=1000)
    log = await harness.open(settings)
    await log.append(identified(["x"], time=MS))
    harness.now += 0.9
    sources = [CopySource(0, None, b"x", [(MESSAGE_ID_HEADER, b"x")])]
    data, taken = encoded(sources, TO_A, "orders/0", 1 << 20, log.now_ms)
    assert await append_copies(log, data, taken, TO_A) == Appended(1, 1, -1)
    log = await harness.open(settings)
    harness.now += 0.2
    assert (await log.append(identified(["x"], time=log.now_ms))).base_offset == 2
    assert not list(log.transactions.duplicates_in(0, 3))


def made(count: int, codec: int = 0) -> StoredBatch:
    """A stored batch whose records have distinct values."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 22)
    for index in range(count):
        builder.append(index, 5, b"k%d" % index, b"v%d" % index, [("traceparent", b"t"), ("n", None)])
    return StoredBatch.from_bytes(bytes(builder.build()))


@pytest.mark.parametrize("codec", range(5))
async def test_records_are_read_and_encoded_with_their_headers(codec: int) -> None:
    reading = read_sources(await uncompressed(made(5, codec)), {1, 3, 9}, 1 << 20)
    with pytest.raises(StopIteration) as end:
        next(reading)
    found, read_to = end.value.value
    assert (list(found), read_to) == ([1, 3], 4)
    data, taken = encoded(list(found.values()), TO_A, "orders/7", 1 << 20, MS)
    assert taken == [1, 3]
    records = list(DefaultRecordBatch(data))
    assert [(record.key, record.value, record.timestamp) for record in records] == [
        (b"k1", b"v1", MS),
        (b"k3", b"v3", MS),
    ]
    assert list(records[1].headers) == [
        ("traceparent", b"t"),
        ("n", None),
        (FOR_GROUP_HEADER, b"a"),
        (RETRY_OF_HEADER, b"orders/7/3"),
    ]


def test_earlier_headers_of_a_copy_are_replaced() -> None:
    source = CopySource(
        8, None, None, [(FOR_GROUP_HEADER, b"z"), ("x", b"y"), (RETRY_OF_HEADER, b"orders/0/1")]
    )
    data, _ = encoded([source], TO_A, "orders/0", 1 << 20, MS)
    (record,) = DefaultRecordBatch(data)
    assert list(record.headers) == [("x", b"y"), (FOR_GROUP_HEADER, b"a"), (RETRY_OF_HEADER, b"orders/0/8")]
    assert (record.key, record.value) == (None, None)


def test_a_batch_has_as_many_copies_as_fit() -> None:
    sources = [CopySource(offset, None, b"x" * 600, ()) for offset in range(3)]
    data, taken = encoded(sources, TO_A, "orders/0", 1500, MS)
    assert taken == [0, 1]
    assert len(data) <= 1500
    assert encoded(sources, TO_A, "orders/0", 100, MS)[1] == [0], "a large record has a batch of its own"
    assert encoded([], TO_A, "orders/0", 100, MS) == (b"", [])


async def test_a_copy_above_the_limit_of_the_topic_is_rejected(harness: Harness) -> None:
    log = await harness.open(replace(LogSettings(), max_message_bytes=100))
    assert await code_of(retried(log, 0)) is ErrorCode.MESSAGE_TOO_LARGE
