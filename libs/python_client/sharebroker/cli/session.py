"""Shared by the commands that publish or consume: group set-up, tracing, records as text."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

import sharebroker
from sharebroker import ErrorCode, KafkaError, TopicDescription, TopicPartition
from sharebroker.admin_model import EARLIEST, LATEST
from sharebroker.cli import login
from sharebroker.cli.output import amount, print_notice, text
from sharebroker.tracing.application import traceparent
from sharebroker_protocol import tracing
from sharebroker_protocol.records.record import Record
from sharebroker_protocol.tracing import settings

if TYPE_CHECKING:
    from sharebroker.blocking.admin import Admin

_RESET: Final = "share.auto.offset.reset"
_DENIED: Final = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="Start with the oldest record where the group has no start offset yet "
        "(sets the group's share.auto.offset.reset to earliest).",
    ),
]


def prepare(
    server: str, group: str, topic: str, from_beginning: bool, auto_offset_reset: str | None = None
) -> None:
    """Checks that the topic exists and sets where the group starts. Raises KafkaError.

    Prints a notice if the group is about to start behind existing records.
    """
    with sharebroker.Admin(server) as admin:
        described = admin.describe_topic(topic)
        if from_beginning:
            admin.alter_group_configs(group, {_RESET: "earliest"})
        elif auto_offset_reset is None and (skipped := count_skipped(admin, group, described)):
            print_notice(
                f"Group {group!r} has no start offset and starts at the end of topic {topic!r}, behind "
                f"{amount(skipped, 'record')}; --from-beginning starts a new group with the oldest."
            )


def count_skipped(admin: Admin, group: str, topic: TopicDescription) -> int:
    """Returns the number of records that a new group skips because it starts at the end of the topic.

    0 for a group with a start offset, and without the rights to read offsets and configs.
    """
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    try:
        offsets = admin.group_offsets(group)
        if any(offsets[one].start_offset is not None for one in partitions if one in offsets):
            return 0
        if {config.name: config.value for config in admin.group_configs(group)}.get(_RESET) != "latest":
            return 0
        first, end = (admin.list_offsets(partitions, bound) for bound in (EARLIEST, LATEST))
    except KafkaError as error:
        if error.code in _DENIED:
            return 0
        raise
    return sum((end[one] or 0) - (first[one] or 0) for one in partitions)


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
        **content(record),
    }


class RecordContent(Protocol):
    """The fields of a record that its producer sets."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The payload."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers."""


def content(record: RecordContent) -> dict[str, Any]:
    """Returns key, headers and value; bytes that are not UTF-8 as `value_base64`, `key_base64`."""
    return {
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
