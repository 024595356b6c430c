"""The README says which of Kafka's APIs are served, in which versions."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.api_reference import README, with_table
from sharebroker_server.gateway.kafka.dispatch.api_table import APIS


def test_the_readme_has_the_table_that_dispatches() -> None:
    text = README.read_text()
    assert text == with_table(text), "run python -m sharebroker_server.gateway.kafka.api_reference"
    assert all(f"\n| {key} | " in text for key in APIS)
