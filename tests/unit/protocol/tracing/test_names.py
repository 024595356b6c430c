"""Attributes of spans."""

from __future__ import annotations

import pytest

from sharebroker_protocol.tracing import names


@pytest.mark.parametrize(
    ("partition", "added"),
    [(None, {}), (0, {"messaging.destination.partition.id": "0"})],
)
def test_spans_of_records_have_the_messaging_attributes(partition: int | None, added: dict[str, str]) -> None:
    assert names.about("ack", names.SETTLE, "orders", partition) == {
        "messaging.system": "sharebroker",
        "messaging.operation.name": "ack",
        "messaging.operation.type": "settle",
        "messaging.destination.name": "orders",
        **added,
    }
