"""Records without a key stick to a partition for a batch, then move to another."""

from __future__ import annotations

import pytest

from sharebroker_protocol.records.partitioner import Partitioner, key_hash, murmur2, partition_of


def last(n: int) -> int:
    return n - 1


def test_key_determines_partition() -> None:
    partitioner = Partitioner(100, last)
    assert partitioner.partition(b"N14228", 1000, 8) == partition_of(b"N14228", 8)


def test_records_without_key_stick_until_batch_is_full() -> None:
    partitioner = Partitioner(100, last)
    chosen = [partitioner.partition(None, 50, 3) for _ in range(6)]
    assert chosen == [2, 2, 1, 1, 0, 0]


def test_next_sticky_partition_differs() -> None:
    for choice in range(3):
        partitioner = Partitioner(1, lambda n, choice=choice: min(choice, n - 1))  # type: ignore[misc]  # default
        before = partitioner.partition(None, 1, 4)
        assert partitioner.partition(None, 1, 4) != before


def test_single_partition_is_reused() -> None:
    partitioner = Partitioner(1, last)
    assert [partitioner.partition(None, 1, 1) for _ in range(3)] == [0, 0, 0]


def test_sticky_partition_is_reselected_when_partitions_decrease() -> None:
    partitioner = Partitioner(100, last)
    assert partitioner.partition(None, 1, 8) == 7
    assert partitioner.partition(None, 1, 2) == 1


VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), VECTORS)
def test_hash_equals_kafkas_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@pytest.mark.parametrize("length", range(9))
def test_hash_of_any_length_has_32_bits(length: int) -> None:
    assert -(2**31) <= murmur2(bytes(length)) < 2**31


@pytest.mark.parametrize(("key", "expected"), VECTORS)
def test_partition_uses_the_unsigned_hash(key: bytes, expected: int) -> None:
    assert key_hash(key) == expected & 0x7FFFFFFF
    assert partition_of(key, 8) == (expected & 0x7FFFFFFF) % 8
