"""Settings that cannot work are refused, each by name."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker import ConsumerConfig, ErrorCode, KafkaError, ProducerConfig

WRONG: list[tuple[type[ConsumerConfig | ProducerConfig], str, object]] = [
    (ConsumerConfig, "max_poll_records", 0),
    (ConsumerConfig, "prefetch_records", -1),
    (ConsumerConfig, "retry_backoff_ms", 0),
    (ConsumerConfig, "share_acknowledgement_mode", "automatic"),
    (ConsumerConfig, "share_acquire_mode", "greedy"),
    (ProducerConfig, "linger_ms", -1),
    (ProducerConfig, "batch_size", 0),
    (ProducerConfig, "compression_type", "brotli"),
]


@pytest.mark.parametrize(("config", "name", "value"), WRONG)
def test_refused(config: type[Any], name: str, value: object) -> None:
    with pytest.raises(KafkaError, match=name) as caught:
        config(**{name: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert [violation.field for violation in caught.value.violations] == [name]


def test_all_violations_are_reported_at_once() -> None:
    with pytest.raises(KafkaError) as caught:
        ConsumerConfig(max_poll_records=0, request_timeout_ms=0)
    assert len(caught.value.violations) == 2
