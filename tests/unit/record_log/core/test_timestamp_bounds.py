"""Limits of the distance between a record's timestamp and the current time."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import header_of
from sharebroker_server.record_log.core.timestamp_bounds import TimestampBounds
from tests.unit.record_log.batches import batch

NOW = 1_000_000
BOUNDS = TimestampBounds(before_max_ms=100, after_max_ms=10)


@pytest.mark.parametrize("timestamp", [NOW - 100, NOW, NOW + 10, -1])
def test_timestamp_within_bounds_is_accepted(timestamp: int) -> None:
    BOUNDS.check([header_of(batch(1, time=timestamp))], NOW)


@pytest.mark.parametrize("timestamp", [NOW - 101, NOW + 11])
def test_timestamp_out_of_bounds_is_rejected(timestamp: int) -> None:
    with pytest.raises(KafkaError) as caught:
        BOUNDS.check([header_of(batch(1, time=timestamp))], NOW)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
