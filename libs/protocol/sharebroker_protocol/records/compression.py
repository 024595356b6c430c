"""Compression of record batches, in the framings that Kafka's clients read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import cramjam

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
# Magic; version 1 with independent blocks (Kafka rejects linked blocks); 64 KiB blocks; header checksum.
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END: Final = b"\x00\x00\x00\x00"


def _blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def gzip(data: bytes) -> bytes:
    """Compresses with gzip at level 6, Kafka's default."""
    return bytes(cramjam.gzip.compress(data, 6))


def snappy(data: bytes) -> bytes:
    """Compresses with Snappy in the xerial framing that Kafka's Java clients write."""
    parts = [_XERIAL_HEADER]
    for block in _blocks(data, _XERIAL_BLOCK):
        packed = bytes(cramjam.snappy.compress_raw(block))
        parts += (struct.pack(">i", len(packed)), packed)
    return b"".join(parts)


def lz4(data: bytes) -> bytes:
    """Compresses into an LZ4 frame with independent blocks."""
    parts = [_LZ4_HEADER]
    for block in _blocks(data, _LZ4_BLOCK):
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (struct.pack("<I", len(packed)), packed)
        else:
            parts += (struct.pack("<I", len(block) | _LZ4_STORED), block)
    parts.append(_LZ4_END)
    return b"".join(parts)


def zstd(data: bytes) -> bytes:
    """Compresses into a Zstandard frame at level 3, Kafka's default."""
    return bytes(cramjam.zstd.compress(data, 3))


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression codec: its number in the batch attributes, and its compression function."""

    number: int
    compress: Callable[[bytes], bytes]


CODECS: Final[Mapping[str, Codec]] = {
    "none": Codec(0, bytes),
    "gzip": Codec(1, gzip),
    "snappy": Codec(2, snappy),
    "lz4": Codec(3, lz4),
    "zstd": Codec(4, zstd),
}
"""Codecs by the values of Kafka's `compression.type`."""
