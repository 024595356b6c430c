"""Invalid settings are rejected, each by name."""

from __future__ import annotations

import pytest

from sharebroker import ConsumerConfig, ErrorCode, KafkaError
from tests.testkit.tables import each


@each(
    "name, value",
    [
        ("max_poll_records", 0),
        ("prefetch_records", -1),
        ("lock_ms", -1),
        ("lock_ms", 5),
        ("lock_ms", 999),
        ("lock_ms", 86_400_001),
        ("retry_backoff_ms", 0),
        ("share_acknowledgement_mode", "automatic"),
        ("share_acquire_mode", "greedy"),
        ("client_id", "größe"),
        ("client_id", "x" * 250),
    ],
)
def test_invalid_value_is_rejected(name: str, value: object) -> None:
    with pytest.raises(KafkaError, match=name) as caught:
        ConsumerConfig(**{name: value})  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert [violation.field for violation in caught.value.violations] == [name]


@each("lock_ms", [0, 1000, 86_400_000])
def test_locks_last_from_one_second_to_the_most_that_a_broker_permits(lock_ms: int) -> None:
    assert ConsumerConfig(lock_ms=lock_ms).lock_ms == lock_ms


def test_all_violations_are_reported_at_once() -> None:
    with pytest.raises(KafkaError) as caught:
        ConsumerConfig(max_poll_records=0, request_timeout_ms=0)
    assert len(caught.value.violations) == 2
