"""docs/kafka-compatibility.md lists the Kafka APIs that are served, with their versions."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.api_reference import DOCUMENT, with_table
from sharebroker_server.gateway.kafka.api_table import APIS


def test_documented_api_table_equals_the_served_one() -> None:
    text = DOCUMENT.read_text()
    assert text == with_table(text), "run python -m sharebroker_server.gateway.kafka.api_reference"
    assert all(f"\n| {key} | " in text for key in APIS)
