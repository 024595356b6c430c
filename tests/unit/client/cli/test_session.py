"""Records as text and as environment variables."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharebroker.cli.session import document, environment, place
from sharebroker.consumer.accumulator import Accumulator
from sharebroker_protocol.records.record import Acquisition, Record


@dataclass
class Raw:
    offset: int = 7
    timestamp: int = 1000
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def record(raw: Raw) -> Record:
    sink = Accumulator(lambda: None)
    acquisition = Acquisition(("id", "orders"), 3, (raw.offset, raw.offset), sink)
    acquisition.delivery_count = 2
    return Record(raw, acquisition)


def test_document() -> None:
    assert document(record(Raw(headers=[("h", b"1"), ("n", None)]))) == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1000,
        "delivery_count": 2,
        "key": "k",
        "headers": {"h": "1", "n": None},
        "value": "v",
    }


def test_non_utf8_bytes_are_base64() -> None:
    shown = document(record(Raw(key=None, value=b"\xff")))
    assert (shown["key"], shown["value_base64"]) == (None, "/w==")
    assert "value" not in shown


def test_environment() -> None:
    variables = environment(record(Raw(key=b"a\0b")))
    assert variables == {
        "SHAREBROKER_TOPIC": "orders",
        "SHAREBROKER_PARTITION": "3",
        "SHAREBROKER_OFFSET": "7",
        "SHAREBROKER_KEY": "ab",
        "SHAREBROKER_DELIVERY_COUNT": "2",
    }
    assert environment(record(Raw(key=None)))["SHAREBROKER_KEY"] == ""


def test_place() -> None:
    assert place(record(Raw())) == "orders, partition 3, offset 7"
