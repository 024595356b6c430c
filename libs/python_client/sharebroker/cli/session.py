"""Shared by the commands that publish or consume: group set-up, tracing, records as text."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from sharebroker.blocking.admin import Admin
from sharebroker.cli import login
from sharebroker.cli.output import print_notice, text
from sharebroker.tracing.application import traceparent
from sharebroker_protocol import tracing
from sharebroker_protocol.records.record import Record
from sharebroker_protocol.tracing import settings

FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="Start with the oldest record where the group has no start offset yet "
        "(sets the group's share.auto.offset.reset to earliest).",
    ),
]


def prepare(server: str, group: str, topic: str, from_beginning: bool) -> None:
    """Checks that the topic exists and sets where the group starts. Raises KafkaError."""
    with Admin(server) as admin:
        admin.describe_topic(topic)
        if from_beginning:
            admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})


@contextmanager
def traced() -> Iterator[None]:
    """Traces the work inside, if the variables request it. Raises KafkaError for invalid variables."""
    requested = settings.read()
    if requested.traces is None or requested.sampling.never:
        yield
        return
    try:
        with settings.invalid_variables():
            from sharebroker_protocol.tracing import setup  # imports OpenTelemetry
    except ImportError:
        print_notice("Tracing is off: OpenTelemetry is not installed (pip install 'sharebroker[tracing]').")
        yield
        return
    exporting = setup.begin(requested, {"service.name": "sharebroker-cli"}, _undelivered)
    tracing.turn(exporting.tracer)
    try:
        yield
    finally:
        tracing.turn(None)
        exporting.stop()


def _undelivered(_: str, reason: str) -> None:
    print_notice(f"Traces cannot be exported: {reason}")


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
    """Returns the environment of a command that processes a record: ours, and what describes the record."""
    parent = traceparent()
    return {
        **login.environment(),
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
