"""Where the last whole batch of a fetch response ends."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.record_batches import whole_batches
from tests.testkit.tables import each


def batch(size: int) -> bytes:
    return bytes(8) + (size - 12).to_bytes(4) + bytes(size - 12)


SIZES = (61, 26, 100)
WHOLE = b"".join(map(batch, SIZES))


def test_every_cut_ends_after_the_last_whole_batch() -> None:
    ends = [0, 61, 87, 187]
    for cut in range(len(WHOLE) + 1):
        assert whole_batches(WHOLE[:cut]) == max(end for end in ends if end <= cut)


@each("length", [13, 0, -1, -(2**31)])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    with pytest.raises(KafkaError, match="at byte 61") as rejected:
        whole_batches(batch(61) + bytes(8) + length.to_bytes(4, signed=True) + bytes(100))
    assert rejected.value.code is ErrorCode.CORRUPT_MESSAGE
