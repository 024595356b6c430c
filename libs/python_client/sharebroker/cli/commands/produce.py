"""`sharebroker produce`: publishes lines, JSON lines or CSV."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Literal

import typer

from sharebroker import ErrorCode, KafkaError, TopicDescription
from sharebroker.cli.options import (
    DEFAULT_SERVER,
    MOST,
    AsJson,
    DeliverAfter,
    DeliverAt,
    Server,
    Topic,
    settings,
)
from sharebroker.cli.output import amount, print_done
from sharebroker.cli.progress import progress, size_of
from sharebroker.cli.reading import CountedLines, Fields, Format, Input, read
from sharebroker.cli.session import traced

if TYPE_CHECKING:
    from sharebroker import Admin, Producer, Publication

_UNCONFIRMED: Final = 20_000
_LINGER_MS: Final = 5
_MAX_RECORD: Final = 16 * 1024 * 1024 - 64 * 1024
"""Bytes; the server accepts gRPC requests of 16 MiB."""
_BY_SUFFIX: Final = {".csv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}
EXAMPLES: Final = (
    "echo hello | sharebroker produce greetings",
    "sharebroker produce orders orders.csv --key customer --compression zstd",
    "sharebroker produce events events.txt --format jsonl --key id --header source=import",
    "sharebroker produce visits visits.txt --key-separator : --partition 2",
    "sharebroker produce payments payments.jsonl --message-id payment_id",
)


def produce(
    topic: Topic,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to read; default: standard input.")
    ] = None,
    written: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="lines, jsonl or csv; default: by the file's suffix, else lines.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The field that holds the record's key (jsonl and csv).")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            metavar="TEXT",
            help="What separates the key from the value in a line (lines).",
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            min=0,
            max=MOST,
            help="The partition of every record; default: by the key, else balanced.",
            show_default=False,
        ),
    ] = None,
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="FIELD",
            help="The field that holds the record's message id (jsonl and csv). Topics with "
            "message.dedup.window.ms detect records that are published again.",
        ),
    ] = None,
    deliver_at: DeliverAt = None,
    deliver_after: DeliverAfter = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", help="A header of every record, as key=value; may be repeated."),
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"],
        typer.Option("--compression", help="The compression codec."),
    ] = "none",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Publish one record per line, JSON line or CSV row; exit when all are durable.

    A CSV row becomes a JSON object with the header's field names.
    """
    written = written or _BY_SUFFIX.get(file.suffix if file else "", Format.LINES)
    for option, field in (("--key", key), ("--message-id", message_id)):
        if field is not None and written is Format.LINES:
            raise typer.BadParameter("Lines have no fields; use --format jsonl or csv.", param_hint=option)
    if key_separator is not None and (not key_separator or written is not Format.LINES):
        raise typer.BadParameter("Needs a text, and lines as input.", param_hint="--key-separator")
    if deliver_at is not None and deliver_after is not None:
        raise typer.BadParameter("Use --deliver-at or --deliver-after.", param_hint="--deliver-after")
    headers = [(name, value.encode()) for name, value in settings(header, "--header").items()]
    from sharebroker import Admin, Producer, ProducerConfig

    with Admin(server) as admin:
        _check_partition(admin.describe_topic(topic), partition)
        largest = largest_record(admin, topic)
    at = None if deliver_at is None else deliver_at.timestamp()
    publisher = InputPublisher(SendOptions(topic, partition, tuple(headers), at, deliver_after))
    config = ProducerConfig(compression_type=compression, linger_ms=_LINGER_MS, max_request_size=largest)
    try:
        with traced(), _opened(file) as opened, Producer(server, config) as producer:
            lines = CountedLines(opened)
            separator = None if key_separator is None else key_separator.encode()
            records = read(lines, written, Fields(key, message_id), separator)
            with progress(lines, size_of(opened)) as shown:
                publisher.publish(producer, records, shown)
    finally:
        result = {"topic": topic, "records": publisher.confirmed}
        print_done(result, as_json, f"Published {amount(publisher.confirmed, 'record')} to {topic}.")


def _check_partition(topic: TopicDescription, partition: int | None) -> None:
    """Raises typer.BadParameter for a partition that the topic does not have."""
    if partition is not None and partition >= topic.partitions:
        raise typer.BadParameter(
            f"Topic {topic.name} has partitions 0 to {topic.partitions - 1}.", param_hint="--partition"
        )


def largest_record(admin: Admin, topic: str) -> int:
    """Returns the bytes that a record may have: `max.message.bytes` of the topic, within a gRPC request."""
    from sharebroker import ProducerConfig

    default = ProducerConfig().max_request_size
    try:
        configs = {config.name: config.value for config in admin.topic_configs(topic)}
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return default
        raise
    return max(default, min(int(configs["max.message.bytes"]), _MAX_RECORD))


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Where and when records are delivered: the fields of `Producer.send` that all records share."""

    topic: str
    partition: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    deliver_at: float | None = None
    deliver_after: float | None = None


class InputPublisher:
    """Publishes input; `confirmed` counts durable records."""

    def __init__(self, options: SendOptions) -> None:
        self._options = options
        self._open: deque[Publication] = deque()
        self.confirmed = 0

    def publish(
        self, producer: Producer, records: Iterable[Input], shown: Callable[[int], None] = lambda _: None
    ) -> None:
        """Publishes all records and waits for them, even after a BadInputError. Raises KafkaError.

        `shown` receives the number of durable records from time to time.
        """
        options = self._options
        try:
            for record in records:
                sent = producer.send(
                    options.topic,
                    record.value,
                    key=record.key,
                    headers=options.headers,
                    partition=options.partition,
                    message_id=record.message_id,
                    deliver_at=options.deliver_at,
                    deliver_after=options.deliver_after,
                )
                self._open.append(sent)
                if len(self._open) > _UNCONFIRMED:
                    self._confirm()
                    shown(self.confirmed)
        finally:
            while self._open:
                self._confirm()

    def _confirm(self) -> None:
        self._open.popleft().result()
        self.confirmed += 1


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdin.buffer
        return
    with file.open("rb") as opened:
        yield opened
