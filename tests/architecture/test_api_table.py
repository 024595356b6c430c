"""docs/kafka-compatibility.md lists the Kafka APIs that are served, with their versions."""

from __future__ import annotations

from services.gateway.kafka.readme import DOCUMENT, with_table
from services.gateway.kafka.table import served


def test_the_api_table_is_the_one_that_dispatches() -> None:
    text = DOCUMENT.read_text()
    assert text == with_table(text), "run python -m services.gateway.kafka.readme"
    assert all(f"\n| {key} | " in text for key in served())
