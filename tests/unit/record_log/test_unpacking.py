"""Unpacking of compressed records: every codec, its limit, and bytes that cannot be unpacked."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import cramjam
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.unpacking import UnpacksTooLargeError, unpack

PLAIN = b"some records " * 100
PACK: dict[int, Callable[[bytes], bytes]] = {
    1: gzip.compress,
    2: lambda plain: bytes(cramjam.snappy.compress_raw(plain)),
    3: lambda plain: bytes(cramjam.lz4.compress(plain)),
    4: lambda plain: bytes(cramjam.zstd.compress(plain)),
}


@pytest.mark.parametrize("codec", PACK)
def test_records_up_to_the_limit_are_unpacked(codec: int) -> None:
    packed = memoryview(PACK[codec](PLAIN))
    assert bytes(unpack(codec, packed, len(PLAIN))) == PLAIN
    with pytest.raises(UnpacksTooLargeError) as caught:
        unpack(codec, packed, len(PLAIN) - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("packed", [b"", b"\xff" * 20])
def test_bytes_that_cannot_be_unpacked_are_rejected(codec: int, packed: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        unpack(codec, memoryview(packed), 1000)
    assert caught.value.code is ErrorCode.INVALID_RECORD
