"""The tables of the pipeline's definitions on rows that the tests choose, evaluated once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.pipeline.project import folder_of, read
from sharebroker_server.pipeline.settings import Settings
from tests.pipeline.queue import broken
from tests.spark.environment import running

GROUP, TOPIC, LIMIT = "workers", "flights", 3
STARTED = "2026-01-01 09:00:00"
PROJECT, _ = read(folder_of("example:flights"))
SETTINGS = Settings("127.0.0.1:1", PROJECT, "", {GROUP: LIMIT}, 10, STARTED)

FLIGHTS = [
    Flight("2013-01-01", "UA", "1", "N1", "EWR", "IAH", 517, 2, 10),
    Flight("2013-01-01", "UA", "2", "N1", "EWR", "IAH", 2400, 4, 20),
    Flight("2013-01-02", "AA", "3", "", "JFK", "MIA", 5, -3, -5),
]
"""The first flights of the topic; 24:00 and 0:05 are of the same hour."""

NEVER_DEPARTED = Flight("2013-01-03", "AA", "4", "", "JFK", "MIA", None, None, None)
NO_ARRIVAL = Flight("2013-01-03", "AA", "5", "", "JFK", "MIA", 900, 1, None)


def bronze_row(offset: int, value: bytes | None, delivery_count: int = 1, seconds: int = 1) -> dict[str, Any]:
    """A record that was published at 08:00:00 and read `seconds` later."""
    return {
        "topic": TOPIC,
        "offset": offset,
        "timestamp": "2026-01-01T08:00:00+00:00",
        "read_at": f"2026-01-01T08:00:{seconds:02}+00:00",
        "delivery_count": delivery_count,
        "value": value.hex() if value is not None else None,
    }


def bronze() -> list[dict[str, Any]]:
    """Three flights, two that did not arrive, and one of each broken record; the last was delivered twice."""
    values = [flight.payload() for flight in (*FLIGHTS, NEVER_DEPARTED, NO_ARRIVAL)]
    values += broken().values()
    rows = [bronze_row(offset, value or None) for offset, value in enumerate(values)]
    return [*rows, bronze_row(len(rows), FLIGHTS[0].payload(), delivery_count=2, seconds=5)]


def log_row(kind: str, position: int, *run: int, start: int | None = None, **change: Any) -> dict[str, Any]:
    """A row of a state log: `run` is (first offset, last offset, state, deliveries), or nothing."""
    first, last, state, deliveries = run or (None, None, None, None)
    row = {
        "group": GROUP,
        "topic": TOPIC,
        "partition": 0,
        "position": position,
        "kind": kind,
        "checkpoint_epoch": 1,
        "delta_index": 0,
        "state_epoch": 2 if kind != "delta" else None,
        "leader_epoch": 5 if kind != "delta" else None,
        "start_offset": start,
        "delivery_complete_count": None,
        "first_offset": first,
        "last_offset": last,
        "delivery_state": state,
        "delivery_count": deliveries,
        "written_at": f"2026-01-01T08:00:{position:02}+00:00",
        "not_before": None,
    }
    return row | change


FUTURE = "2999-01-01T00:00:00+00:00"


LOG = [
    log_row("checkpoint", 1, 0, 1, 2, 1, start=0),  # 0, 1 accepted
    log_row("delta", 10, 2, 3, 2, 2),  # 2, 3 accepted at the second delivery
    log_row("delta", 20, 4, 4, 4, 3),  # 4 archived
    log_row("delta", 21, 5, 6, 0, LIMIT),  # 5, 6 available at the delivery limit
    log_row("delta", 22, 7, 7, 0, 1),  # 7 to be redelivered
    log_row("answer", 23, 0, 3, 2, 1, start=0),  # the coordinator has fewer deliveries of 2, 3
    log_row("answer", 23, 4, 4, 4, 3, start=0),
    log_row("answer", 23, 5, 6, 0, LIMIT, start=0),
    log_row("delta", 22, 8, 8, 0, LIMIT, not_before=FUTURE),  # 8 waits
    log_row("answer", 23, 7, 7, 0, 1, start=0),
    log_row("answer", 23, 8, 8, 0, LIMIT, start=0, not_before=FUTURE),
]
"""The log of one share-partition, and the coordinator's state, which differs in one place."""


FAILED = [
    [GROUP, TOPIC, 0, 3, 4, "rejected", 3, "m", "no such route"],
    [GROUP, TOPIC, 0, 9, 9, "expired", 0, None, None],
]
"""The journal without times: group, topic, partition, offsets, disposition, deliveries, member, reason."""


@dataclass
class Definitions:
    """The tables by name; kind and comment of each."""

    tables: dict[str, list[dict[str, Any]]]
    outputs: dict[str, tuple[str, str]]


@pytest.fixture(scope="session")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    folder = tmp_path_factory.mktemp("definitions")
    given = folder / "given.json"
    content = {"bronze": bronze(), "log": LOG, "failed": FAILED}
    given.write_text(json.dumps({"settings": SETTINGS.to_configuration(), **content}))
    with running("definitions", folder / "run", str(given)) as program:
        tables = program.wait_for_value("tables")
        return Definitions(tables, program.value("outputs"))
