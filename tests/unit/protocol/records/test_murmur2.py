"""Keys go where a Kafka producer puts them. The vectors are those of Kafka's UtilsTest."""

from __future__ import annotations

import pytest

from sharebroker_protocol.records.murmur2 import key_hash, murmur2, partition_of

VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), VECTORS)
def test_kafkas_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@pytest.mark.parametrize("length", range(9))
def test_every_length_modulo_four_has_32_bits(length: int) -> None:
    assert -(2**31) <= murmur2(bytes(length)) < 2**31


@pytest.mark.parametrize(("key", "expected"), VECTORS)
def test_partition_uses_hash_without_sign(key: bytes, expected: int) -> None:
    assert key_hash(key) == expected & 0x7FFFFFFF
    assert partition_of(key, 8) == (expected & 0x7FFFFFFF) % 8
