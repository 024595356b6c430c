"""Compression in the framings that Kafka's clients read."""

from __future__ import annotations

from random import Random

import cramjam
import pytest
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode

from sharebroker_protocol.records.compression import CODECS, lz4, snappy

RANDOM = Random(7)
READERS = {
    "none": bytes,
    "gzip": gzip_decode,
    "snappy": snappy_decode,
    "lz4": lz4_decode,
    "zstd": zstd_decode,
}
CONTENTS = {
    "short": b"a",
    "repeated": b"ab" * 100_000,
    "random": RANDOM.randbytes(200_000),
    "one block": RANDOM.randbytes(65_536),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("codec", CODECS)
def test_an_independent_reader_returns_the_content(codec: str, content: str) -> None:
    data = CONTENTS[content]
    assert bytes(READERS[codec](CODECS[codec].compress(data))) == data


def test_codec_numbers_are_those_of_batch_attributes() -> None:
    assert [(name, codec.number) for name, codec in CODECS.items()] == [
        ("none", 0),
        ("gzip", 1),
        ("snappy", 2),
        ("lz4", 3),
        ("zstd", 4),
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_repeated_content_becomes_smaller(codec: str) -> None:
    assert len(CODECS[codec].compress(CONTENTS["repeated"])) < 20_000


def test_snappy_has_the_header_of_xerial_and_blocks_of_32_kib() -> None:
    framed = snappy(bytes(33_000))
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    size = int.from_bytes(framed[16:20], "big")
    assert len(bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + size]))) == 32_768


def test_lz4_blocks_are_independent_and_stored_when_they_do_not_shrink() -> None:
    frame = lz4(RANDOM.randbytes(100_000))
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0x20, "Kafka's reader refuses linked blocks"
    assert int.from_bytes(frame[7:11], "little") == 65_536 | 0x8000_0000
