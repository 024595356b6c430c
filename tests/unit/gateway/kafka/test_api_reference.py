"""docs/kafka-compatibility.md lists the Kafka APIs that are served, with their versions."""

from __future__ import annotations

import re
from typing import Final

from sharebroker_server.gateway.kafka.api_reference import DOCUMENT, with_table
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.permissions import API_PERMISSIONS

_ROW: Final = re.compile(r"\| \d+ \|")


def test_documented_api_table_equals_the_served_one() -> None:
    text = DOCUMENT.read_text()
    assert text == with_table(text), "run python -m sharebroker_server.gateway.kafka.api_reference"
    assert all(f"\n| {key} | " in text for key in APIS)


def test_every_row_ends_with_its_permissions() -> None:
    lines = [line.split(" | ") for line in DOCUMENT.read_text().splitlines() if _ROW.match(line)]
    rows = {cells[1]: cells[-1] for cells in lines}
    assert rows["DeleteTopics"] == "DELETE TOPIC or DELETE CLUSTER |"
    assert rows["ShareFetch"] == "READ GROUP, READ TOPIC |"
    assert rows["ApiVersions"] == "– |"
    assert len(rows) == len(API_PERMISSIONS)
