"""Failed records are read from the log in portions, compressed batches once."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import (
    MAX_UNPACKED_BYTES,
    LogSettings,
    plain_batch,
)
from sharebroker_server.share_partition_leader.dead_letters import source
from sharebroker_server.share_partition_leader.dead_letters.source import RecordReader
from tests.unit.record_log.batches import batch, identified
from tests.unit.record_log.harness import Harness as LogHarness


@pytest.fixture
def logs() -> LogHarness:
    return LogHarness()


async def filled(logs: LogHarness, codec: int = 0) -> PartitionLog:
    log = await logs.open(LogSettings(max_message_bytes=1 << 24))
    await log.append(identified(["a", "b", "c"], codec=codec))
    await log.end_transaction(Marker(7, 0, 0, commit=True))
    await log.append(identified(["d", "e"], codec=codec))
    return log


@pytest.mark.parametrize("codec", range(5))
async def test_records_are_read_by_offset(logs: LogHarness, codec: int) -> None:
    log = await filled(logs, codec)
    read = await RecordReader().read(log, [0, 2, 3, 5], decode=True)
    assert (read.number, read.markers, sorted(read.records)) == (4, frozenset({3}), [0, 2, 5])
    assert read.records[2].value == b"x"
    assert read.records[5].headers == (("other", b"y"), ("sharebroker.message.id", b"e"))


async def test_without_decoding_only_markers_are_found(logs: LogHarness) -> None:
    read = await RecordReader().read(await filled(logs), [0, 2, 3, 5], decode=False)
    assert (read.number, read.markers, dict(read.records)) == (4, frozenset({3}), {})


async def test_deleted_records_are_missing(logs: LogHarness) -> None:
    log = await filled(logs)
    await log.delete_records(2)
    read = await RecordReader().read(log, [0, 1, 2, 99], decode=True)
    assert (read.number, sorted(read.records)) == (4, [2])


async def test_a_portion_ends_at_its_size(logs: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "READ_BYTES", 25)
    log, reader = await filled(logs), RecordReader()
    await log.append(batch(10, 10))
    offsets, found = list(range(6, 16)), list[int]()
    while offsets:
        read = await reader.read(log, offsets, decode=True)
        assert read.number == min(3, len(offsets))
        found += read.records
        offsets = offsets[read.number :]
    assert found == list(range(6, 16))


def count_unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that grows with each batch that the reader unpacks."""
    unpacked: list[int] = []

    def unpack(header: BatchHeader, data: Buffer) -> Buffer:
        unpacked.append(1)
        return plain_batch(header, data)

    monkeypatch.setattr(source, "plain_batch", unpack)
    return unpacked


async def test_a_batch_is_unpacked_once(logs: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = count_unpacked(monkeypatch)
    log, reader = await logs.open(), RecordReader()
    await log.append(batch(5_000, 1, codec=4))
    for first in range(0, 5_000, 1_000):
        read = await reader.read(log, list(range(first, first + 1_000)), decode=True)
        assert sorted(read.records) == list(range(first, first + 1_000))
    assert len(unpacked) == 1
    await reader.read(log, [17], decode=True)
    assert len(unpacked) == 2


def unpacking_to(size: int) -> bytes:
    """A compressed batch of 64 records that unpacks to `size` bytes."""

    def built(last: int, codec: int) -> bytes:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 25,
        )
        for number in range(64):
            assert builder.append(number, 1000, None, bytes(last if number == 63 else 1 << 18), [])
        return bytes(builder.build())

    surplus = len(built(1 << 18, 0)) - HEADER_SIZE - size
    return built((1 << 18) - surplus, 4)


@pytest.mark.slow
async def test_the_largest_batch_is_read_in_portions(
    logs: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = count_unpacked(monkeypatch)
    log, reader = await logs.open(LogSettings(max_message_bytes=1 << 20)), RecordReader()
    with pytest.raises(KafkaError, match="16777216"):
        await log.append(unpacking_to(MAX_UNPACKED_BYTES + 1))
    await log.append(unpacking_to(MAX_UNPACKED_BYTES))
    offsets, portions = list(range(64)), list[list[int]]()
    while offsets:
        read = await reader.read(log, offsets, decode=True)
        assert all(record.value for record in read.records.values())
        portions.append(sorted(read.records))
        offsets = offsets[read.number :]
    assert portions == [list(range(first, first + 4)) for first in range(0, 64, 4)]
    assert len(unpacked) == 1


async def test_an_unreadable_batch_is_missing(logs: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(source, "plain_batch", damaged)
    log = await filled(logs, 1)
    read = await RecordReader().read(log, [0, 1, 4], decode=True)
    assert (read.number, read.records) == (3, {})
