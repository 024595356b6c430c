"""Batches of responses: whole ones, old formats, aborted transactions, and how long memory keeps them."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import assign, parse_headers
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.transactions import marker_batch
from sharebroker_server.upstream_log.core.chunks import Chunk, ChunkCache, Chunks, chunk_of
from sharebroker_server.upstream_log.core.epochs import EpochStart
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import offsets

ALL = 1 << 20


def at(offset: int, count: int = 2, epoch: int = 0, producer: int = -1) -> bytes:
    ids = (producer, 0, 0) if producer >= 0 else (-1, -1, -1)
    data = batch(count, producer=ids, transactional=producer >= 0)
    (stored,) = assign(data, parse_headers(data, ALL), offset, epoch)
    return stored.data


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return marker_batch(Marker(producer, 0, 0, commit), offset, 0, 1000).data


def chunk(records: bytes, offset: int) -> Chunk:
    made = chunk_of(records, offset)
    assert made is not None
    return made


@pytest.mark.parametrize("offset", [10, 11])
def test_a_chunk_begins_with_the_batch_of_its_offset(offset: int) -> None:
    made = chunk(at(8) + at(10) + at(14), offset)
    assert offsets(made.batches) == [(10, 11), (14, 15)]
    assert (made.start, made.end) == (10, 16)


def test_a_gap_before_the_first_batch_belongs_to_the_chunk() -> None:
    made = chunk(at(14), 10)
    assert (made.start, made.end) == (10, 16)


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    records = at(0) + at(2)
    assert offsets(chunk(records[:-1], 0).batches) == [(0, 1)]
    assert chunk_of(at(0)[:-1], 0) is None
    assert chunk_of(b"", 0) is None


def test_damaged_batches_are_rejected() -> None:
    damaged = bytearray(at(0))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as rejected:
        chunk_of(bytes(damaged), 0)
    assert rejected.value.code is ErrorCode.CORRUPT_MESSAGE


def test_old_formats_are_refused_with_a_sentence() -> None:
    old = bytearray(at(0))
    old[16] = 1
    with pytest.raises(KafkaError, match=r"before Kafka 0\.11") as rejected:
        chunk_of(bytes(old), 0)
    assert rejected.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_each_leader_epoch_is_noted_with_its_first_offset() -> None:
    made = chunk(at(0, epoch=3) + at(2, epoch=3) + at(4, epoch=5), 0)
    assert made.epochs == [EpochStart(3, 0), EpochStart(5, 4)]


def test_batches_of_aborted_transactions_end_at_their_marker() -> None:
    records = (
        at(0, producer=7)
        + at(2, producer=8)
        + at(4)
        + marker(6, 7, commit=False)
        + at(7, producer=7)  # of the next transaction, which is committed
        + marker(9, 7, commit=True)
        + at(10, producer=8)
        + marker(12, 8, commit=False)
    )
    made = chunk_of(records, 0, aborted=[(8, 2), (7, 0)])
    assert made is not None
    assert made.aborted == [(0, 1), (2, 3), (10, 11)]
    assert made.transactional
    assert not chunk(at(4), 4).transactional


def cached(limit: int, total: int = ALL) -> Chunks:
    return Chunks(ChunkCache(total), limit)


def test_consecutive_chunks_are_read_together() -> None:
    chunks = cached(ALL)
    for offset in (4, 0, 2, 8):
        chunks.add(chunk(at(offset), offset))
    assert offsets(chunks.read(1, ALL)) == [(0, 1), (2, 3), (4, 5)]
    assert offsets(chunks.read(1, 1)) == [(0, 1)]
    assert chunks.read(6, ALL) is None
    assert offsets(chunks.read(8, ALL)) == [(8, 9)]


def test_a_chunk_that_overlaps_is_cut() -> None:
    chunks = cached(ALL)
    chunks.add(chunk(at(4), 4))
    chunks.add(chunk(at(0) + at(2) + at(4) + at(6), 0))
    chunks.add(chunk(at(4) + at(6), 4))
    assert offsets(chunks.read(0, ALL)) == [(0, 1), (2, 3), (4, 5)]
    assert chunks.size == 3 * len(at(0))


def test_plain_reads_leave_chunks_with_transactions_out() -> None:
    chunks = cached(ALL)
    chunks.add(chunk(at(0), 0))
    chunks.add(chunk(at(2, producer=7), 2))
    assert offsets(chunks.read(0, ALL, plain=True)) == [(0, 1)]
    assert chunks.read(2, ALL, plain=True) is None


def test_the_chunk_that_was_not_used_for_longest_is_dropped() -> None:
    size = len(at(0))
    chunks = cached(2 * size)
    chunks.add(chunk(at(0), 0))
    chunks.add(chunk(at(2), 2))
    assert chunks.read(0, 1) is not None
    chunks.add(chunk(at(4), 4))
    assert chunks.read(2, ALL) is None
    assert chunks.read(0, ALL) is not None
    assert chunks.size == 2 * size


def test_the_limit_of_the_process_concerns_all_partitions() -> None:
    size = len(at(0))
    cache = ChunkCache(2 * size)
    first, second = Chunks(cache, ALL), Chunks(cache, ALL)
    first.add(chunk(at(0), 0))
    second.add(chunk(at(0), 0))
    second.add(chunk(at(2), 2))
    assert first.read(0, ALL) is None
    assert (first.size, second.size, cache.size) == (0, 2 * size, 2 * size)
    second.clear()
    assert cache.size == 0


def test_a_chunk_above_the_limit_is_kept_until_the_next() -> None:
    chunks = cached(1, total=1)
    chunks.add(chunk(at(0), 0))
    assert chunks.read(0, ALL) is not None
    chunks.add(chunk(at(2), 2))
    assert chunks.read(0, ALL) is None
    assert chunks.read(2, ALL) is not None


@pytest.mark.parametrize(
    ("start", "end", "kept"), [(0, 6, [0, 2, 4]), (3, 6, [2, 4]), (0, 4, [0, 2]), (0, 3, [0])]
)
def test_chunks_outside_the_log_are_dropped(start: int, end: int, kept: list[int]) -> None:
    chunks = cached(ALL)
    for offset in (0, 2, 4):
        chunks.add(chunk(at(offset), offset))
    chunks.drop_outside(start, end)
    assert [offset for offset in (0, 2, 4) if chunks.find(offset)] == kept
