"""Invalid settings are rejected, each by name."""

from __future__ import annotations

import pytest

from sharebroker import ErrorCode, KafkaError, ProducerConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger_ms", -1),
        ("batch_size", 0),
        ("compression_type", "brotli"),
    ],
)
def test_invalid_value_is_rejected(name: str, value: object) -> None:
    with pytest.raises(KafkaError, match=name) as caught:
        ProducerConfig(**{name: value})  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert [violation.field for violation in caught.value.violations] == [name]
