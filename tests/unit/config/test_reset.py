"""The values of share.auto.offset.reset."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.config.reset import OffsetReset, duration_ms


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("PT1H", 3_600_000),
        ("PT30M", 1_800_000),
        ("P1D", 86_400_000),
        ("P2DT3H4M", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000),
        ("PT20.345S", 20_345),
        ("PT20,345S", 20_345),
        ("PT0S", 0),
        ("pt15m", 900_000),
        ("PT0.0009S", 0),
        ("PT1.S", 1000),
        ("-PT1H", -3_600_000),
        ("-PT-1H", 3_600_000),
        ("PT-6H+3M", -6 * 3_600_000 + 180_000),
        ("PT-1.5S", -1500),
        ("+PT1S", 1000),
        ("P-1D", -86_400_000),
    ],
)
def test_duration_accepts_java_syntax(text: str, millis: int) -> None:
    assert duration_ms(text) == millis


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "1H", "PT1", "P1Y", "P1W", "P1M", "PT1H ", "PT1.5H", "PT1M1H", "PT1.0123456789S"],
)
def test_duration_rejects_what_java_rejects(text: str) -> None:
    assert duration_ms(text) is None


@pytest.mark.parametrize(
    "value",
    ["Latest", "by_duration", "by_duration:", "by_duration:PT", "by_duration:-PT1H", "by_duration:1h", ""],
)
def test_reset_policy_rejects(value: str) -> None:
    with pytest.raises(KafkaError, match="an ISO-8601 duration"):
        OffsetReset.parse(value)


def test_reset_policy_accepts() -> None:
    assert OffsetReset.parse("latest") == OffsetReset("latest")
    assert OffsetReset.parse("by_duration:P1DT1S") == OffsetReset("by_duration", 86_401_000)
