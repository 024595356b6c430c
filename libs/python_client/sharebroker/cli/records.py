"""Records as the command line prints them and passes them to commands."""

from __future__ import annotations

import base64
from typing import Any

from sharebroker.cli.output import text
from sharebroker.tracing.application import traceparent
from sharebroker_protocol.records.record import Record


def document(record: Record) -> dict[str, Any]:
    """Returns a record as plain values; bytes that are not UTF-8 as `value_base64`, `key_base64`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "delivery_count": record.delivery_count,
        **_field("key", record.key),
        "headers": {name: text(value) for name, value in record.headers},
        **_field("value", record.value),
    }


def environment(record: Record) -> dict[str, str]:
    """Returns the environment variables that describe a record to a command."""
    parent = traceparent()
    return {
        **({"TRACEPARENT": parent} if parent else {}),
        "SHAREBROKER_TOPIC": record.topic,
        "SHAREBROKER_PARTITION": str(record.partition),
        "SHAREBROKER_OFFSET": str(record.offset),
        "SHAREBROKER_KEY": (text(record.key) or "").replace("\0", ""),
        "SHAREBROKER_DELIVERY_COUNT": str(record.delivery_count),
    }


def place(record: Record) -> str:
    """Returns the position of a record as text."""
    return f"{record.topic}, partition {record.partition}, offset {record.offset}"


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
