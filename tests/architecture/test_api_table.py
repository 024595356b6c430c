"""The README says which of Kafka's APIs are served, in which versions."""

from __future__ import annotations

from services.gateway.kafka.readme import README, with_table
from services.gateway.kafka.table import served


def test_the_readme_has_the_table_that_dispatches() -> None:
    text = README.read_text()
    assert text == with_table(text), "run python -m services.gateway.kafka.readme"
    assert all(f"\n| {key} | " in text for key in served())
