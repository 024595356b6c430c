"""The state log as rows, and the options of the format."""

from __future__ import annotations

import pytest

from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import (
    InspectShareGroupStateResponse,
    StateBatch,
)
from sharebroker_spark.core.options import OptionError
from sharebroker_spark.core.state_options import StateOptions, state_options
from sharebroker_spark.core.state_rows import COLUMNS, SharePartition, rows, unreadable

LogRecord = InspectShareGroupStateResponse.LogRecord
PLACE = SharePartition("g", "orders", "id", 3)
SERVER = {"bootstrap": "127.0.0.1:9090"}
NAMES = [name for name, _ in COLUMNS]


def batch(first: int, last: int, state: int, count: int) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def test_a_row_a_run() -> None:
    stored = InspectShareGroupStateResponse(
        records=[
            LogRecord(
                position=7,
                kind="checkpoint",
                checkpoint_epoch=2,
                state_epoch=4,
                leader_epoch=5,
                start_offset=-1,
                delivery_complete_count=1,
                write_timestamp_ms=1500,
                state_batches=[batch(1, 2, 2, 1), batch(4, 4, 0, 3)],
            ),
            LogRecord(
                position=9, kind="delta", checkpoint_epoch=2, delta_index=8, leader_epoch=-1, start_offset=6
            ),
            LogRecord(position=11, kind="tombstone"),
        ],
        live=LogRecord(position=7, kind="checkpoint", checkpoint_epoch=2, start_offset=6),
    )
    found = [dict(zip(NAMES, row, strict=True)) for row in rows(PLACE, stored.records, stored.live)]
    assert {(row["group"], row["topic"], row["partition"]) for row in found} == {("g", "orders", 3)}
    told = [[row[name] for name in NAMES[3:]] for row in found]
    assert told == [
        [7, "checkpoint", 2, None, 4, 5, -1, 1, 1, 2, 2, 1, 1_500_000],
        [7, "checkpoint", 2, None, 4, 5, -1, 1, 4, 4, 0, 3, 1_500_000],
        [9, "delta", 2, 8, None, None, 6, 0, None, None, None, None, None],
        [11, "tombstone", None, None, None, None, None, None, None, None, None, None, None],
        [7, "answer", 2, None, 0, 0, 6, 0, None, None, None, None, None],
    ]


def test_what_cannot_be_read_is_a_row_too() -> None:
    assert unreadable(PLACE) == ("g", "orders", 3, None, "unreadable", *[None] * (len(COLUMNS) - 5))
    assert list(rows(PLACE, (), None)) == []


def test_options() -> None:
    assert state_options(SERVER) == StateOptions("127.0.0.1:9090")
    encrypted = "tls://127.0.0.1:9090?ca=/etc/ca.pem&cert=/etc/me.pem&key=/etc/me.key"
    assert state_options({"bootstrap": encrypted}) == StateOptions(encrypted)
    given = SERVER | {"groups": " a, b,a,", "topics": "t", "onUnavailable": "Wait", "path": "x"}
    assert state_options(given) == StateOptions("127.0.0.1:9090", ("a", "b"), ("t",), waits=True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "option bootstrap is ''"),
        (SERVER | {"grups": "a"}, "unknown option grups; the options are bootstrap, groups"),
        (SERVER | {"onUnavailable": "perhaps"}, "it must be fail or wait"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        state_options(given)
