"""Backoff of a worker, and settings out of range."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker import ConsumerConfig, ErrorCode, KafkaError, Retry, WorkerConfig
from sharebroker.worker.config import exponential_backoff
from sharebroker_protocol.records.record import MAX_DELAY


@pytest.mark.parametrize(
    ("first", "multiplier", "longest", "delays"),
    [
        (1, 2, 100, [1, 2, 4, 8, 16, 32, 64, 100, 100]),
        (0.5, 1, 100, [0.5, 0.5, 0.5]),
        (10, 3, 5, [5, 5]),
        (0, 2, 100, [0, 0]),
    ],
)
def test_delay_grows_with_the_delivery_count(
    first: float, multiplier: float, longest: float, delays: list[float]
) -> None:
    config = WorkerConfig(backoff=first, backoff_multiplier=multiplier, backoff_max=longest)
    assert [config.delay(count) for count in range(1, len(delays) + 1)] == delays


@given(
    first=st.floats(0, MAX_DELAY),
    multiplier=st.floats(1, 1e6),
    longest=st.floats(0, MAX_DELAY),
    attempt=st.integers(1, 32_767),
)
def test_delay_never_shrinks_and_is_bounded(
    first: float, multiplier: float, longest: float, attempt: int
) -> None:
    delay = exponential_backoff(first, multiplier, longest, attempt)
    assert 0 <= delay <= longest
    assert delay <= exponential_backoff(first, multiplier, longest, attempt + 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("concurrency", 0),
        ("backoff", -1),
        ("backoff", math.nan),
        ("idle_timeout", math.nan),
        ("backoff_multiplier", 0.5),
        ("backoff_max", MAX_DELAY + 1),
        ("max_failures", -1),
        ("idle_timeout", -0.1),
        ("graceful_shutdown_timeout", -1),
    ],
)
def test_setting_out_of_range_is_rejected(field: str, value: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        WorkerConfig(**{field: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize("delay", [-0.1, MAX_DELAY + 1])
def test_retry_rejects_a_delay_that_no_server_accepts(delay: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 86400 seconds"):
        Retry(delay)


def test_consumer_keeps_its_other_settings() -> None:
    consumer = WorkerConfig(concurrency=7, consumer=ConsumerConfig(client_id="mine")).for_consumer()
    assert (consumer.client_id, consumer.prefetch_records, consumer.auto_renew) == ("mine", 7, True)
