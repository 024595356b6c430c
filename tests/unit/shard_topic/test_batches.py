"""Record batches that need not have a record at each offset."""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords

from sharebroker_server.record_log.core.batch import HEADER_SIZE, LEADER_EPOCH, header_of
from sharebroker_server.shard_topic.batches import KafkaRecord, record_batch

T0 = 1_700_000_000_000


def read(data: bytes) -> list[tuple[int, KafkaRecord]]:
    batches = MemoryRecords(data)
    batch = batches.next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert batches.next_batch() is None
    return [(one.offset, KafkaRecord(one.timestamp, one.key, one.value)) for one in batch]


@pytest.mark.parametrize("times", [(T0, T0 + 5, T0 + 2), (-1, T0, -1), (T0, -1, T0), (-1, -1, -1), (0, 1, 0)])
def test_records_have_their_offsets_and_times(times: tuple[int, ...]) -> None:
    records = [
        (2**40 + 2 * n, KafkaRecord(time, b"k%d" % n, None if n == 1 else b"v"))
        for n, time in enumerate(times)
    ]
    data = record_batch(2**40, 2**40 + 5, records)
    assert read(data) == records
    assert header_of(data).max_timestamp == max(times)


def test_batch_may_have_gaps_at_both_ends() -> None:
    record = KafkaRecord(T0, b"k", b"v")
    data = record_batch(10, 30, [(17, record)])
    assert read(data) == [(17, record)]
    header = header_of(data)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 29, 1)
    assert (header.leader_epoch, header.size) == (LEADER_EPOCH, len(data))


def test_batch_may_be_one_gap() -> None:
    data = record_batch(10, 30, [])
    header = header_of(data)
    assert (len(data), header.base_offset, header.last_offset) == (HEADER_SIZE, 10, 29)
    assert (header.record_count, header.base_timestamp, header.max_timestamp) == (0, -1, -1)
    assert read(data) == []


def test_batch_may_have_many_large_records() -> None:
    records = [(n, KafkaRecord(T0, b"k" * 9, bytes(200_000))) for n in range(20)]
    assert len(record_batch(0, 20, records)) > 4_000_000
    assert records[0][1].size == 200_009
