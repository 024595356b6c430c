"""Stored records as rows, their selection by the command line, and the bounds of positions."""

from __future__ import annotations

import pytest
import typer

from sharebroker.aio.record_browser import BrowsedRecord, RecordFilter
from sharebroker.cli.commands.records import parse_filter, record_document, record_row, within
from sharebroker_protocol.model import TopicPartition
from tests.testkit.tables import each


@each(
    "key, header, expected",
    [
        (None, None, RecordFilter()),
        ("ada", None, RecordFilter(key=b"ada")),
        ("", None, RecordFilter(key=b"")),
        (None, "a", RecordFilter(header="a")),
        (None, "a=", RecordFilter(header="a", header_value=b"")),
        (None, "a=b=c", RecordFilter(header="a", header_value=b"b=c")),
    ],
)
def test_filter_is_parsed(key: str | None, header: str | None, expected: RecordFilter) -> None:
    assert parse_filter(key, header) == expected


@pytest.mark.parametrize("header", ["", "=a"])
def test_header_needs_a_name(header: str) -> None:
    with pytest.raises(typer.BadParameter, match="NAME"):
        parse_filter(None, header)


@each("offset, expected", [(None, 9), (0, 3), (5, 5), (12, 9)])
def test_positions_stay_within_the_log(offset: int | None, expected: int) -> None:
    place = TopicPartition("t", 0)
    assert within({place: (3, 9)}, {place: offset}) == {place: expected}


def test_row_shortens_the_value_and_escapes_control_characters() -> None:
    record = BrowsedRecord("t", 1, 7, 1_000, None, b"\x1b[31m\n" + b"x" * 300, (("h", None),))
    row = record_row(record)
    assert row["value"].startswith("\\x1b[31m\\nxxx")
    assert row["value"].endswith("x…")
    assert len(row["value"]) == 201
    assert (row["key"], row["headers"], row["time"]) == (None, {"h": None}, "1970-01-01T00:00:01.000+00:00")


def test_document_keeps_bytes_that_are_not_text() -> None:
    record = BrowsedRecord("t", 1, 7, 1_000, b"k", b"\xff", ())
    assert record_document(record) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp_ms": 1_000,
        "key": "k",
        "headers": {},
        "value_base64": "/w==",
    }
