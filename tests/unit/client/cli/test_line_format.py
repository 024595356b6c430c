"""Lines of records by a template."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sharebroker.cli.line_format import LineFormat
from sharebroker_protocol.records.record import Record
from tests.testkit.tables import each
from tests.unit.client.batches import acquisition


def record(**fields: Any) -> Record:
    given = {
        "offset": 7,
        "timestamp": 1_500,
        "key": b"k",
        "value": b"v\xff",
        "headers": [("a", b"1"), ("a", b"2")],
    }
    return Record(SimpleNamespace(**given | fields), acquisition(7, 7))


@each(
    "template, line",
    [
        ("{value}", b"v\xff"),
        ("{topic}-{partition}@{offset}", b"flights-0@7"),
        ("{time} {timestamp} {delivery}", b"1970-01-01T00:00:01.500+00:00 1500 1"),
        (r"{key}\t{value}\n", b"k\tv\xff\n"),
        ("{{{header:a}}}", b"{1}"),
        ("{header:none}|", b"|"),
        ("\u00e9 {key}", "\u00e9 k".encode()),
        ("", b""),
    ],
)
def test_template_is_filled_in(template: str, line: bytes) -> None:
    assert LineFormat(template).line(record()) == line


def test_missing_key_and_value_are_empty() -> None:
    assert LineFormat("{key}={value}").line(record(key=None, value=None)) == b"="


@pytest.mark.parametrize("template", ["{nonsense}", "{}", "{key!r}", "{key:>9}", "{header}", "{key", "{0}"])
def test_invalid_templates_are_rejected(template: str) -> None:
    with pytest.raises(ValueError, match=r"\{|\}|expected"):
        LineFormat(template)
