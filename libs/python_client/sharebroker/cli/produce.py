"""`sharebroker produce`: publishes lines, JSON lines or CSV."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from sharebroker import Admin, ErrorCode, KafkaError, Producer, ProducerConfig, Publication
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, DeliverAfter, DeliverAt, Server, Topic, settings
from sharebroker.cli.output import print_done
from sharebroker.cli.reading import Fields, Format, Input, read
from sharebroker.cli.session import traced

_UNCONFIRMED: Final = 20_000
_LINGER_MS: Final = 5
_MAX_RECORD: Final = 16 * 1024 * 1024 - 64 * 1024
"""Bytes; the server accepts gRPC requests of 16 MiB."""
_BY_SUFFIX: Final = {".csv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}
EXAMPLES: Final = (
    "echo hello | sharebroker produce greetings",
    "sharebroker produce orders orders.csv --key customer --compression zstd",
    "sharebroker produce events events.txt --format jsonl --key id --header source=import",
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
    if deliver_at is not None and deliver_after is not None:
        raise typer.BadParameter("Use --deliver-at or --deliver-after.", param_hint="--deliver-after")
    headers = [(name, value.encode()) for name, value in settings(header, "--header").items()]
    with Admin(server) as admin:
        admin.describe_topic(topic)
        largest = largest_record(admin, topic)
    at = None if deliver_at is None else deliver_at.timestamp()
    publisher = InputPublisher(topic, headers, at, deliver_after)
    config = ProducerConfig(compression_type=compression, linger_ms=_LINGER_MS, max_request_size=largest)
    try:
        with traced(), _opened(file) as lines, Producer(server, config) as producer:
            publisher.publish(producer, read(lines, written, Fields(key, message_id)))
    finally:
        result = {"topic": topic, "records": publisher.confirmed}
        print_done(result, as_json, f"Published {publisher.confirmed:,} records to {topic}.")


def largest_record(admin: Admin, topic: str) -> int:
    """Returns the bytes that a record may have: `max.message.bytes` of the topic, within a gRPC request."""
    default = ProducerConfig().max_request_size
    try:
        configs = {config.name: config.value for config in admin.topic_configs(topic)}
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return default
        raise
    return max(default, min(int(configs["max.message.bytes"]), _MAX_RECORD))


class InputPublisher:
    """Publishes input; `confirmed` counts durable records."""

    def __init__(
        self,
        topic: str,
        headers: Sequence[tuple[str, bytes]],
        deliver_at: float | None = None,
        deliver_after: float | None = None,
    ) -> None:
        self._topic = topic
        self._deliver_at = deliver_at
        self._deliver_after = deliver_after
        self._headers = headers
        self._open: deque[Publication] = deque()
        self.confirmed = 0

    def publish(self, producer: Producer, records: Iterable[Input]) -> None:
        """Publishes all records and waits for them, even after a BadInputError. Raises KafkaError."""
        try:
            with _progress() as (progress, task):
                for record in records:
                    sent = producer.send(
                        self._topic,
                        record.value,
                        key=record.key,
                        headers=self._headers,
                        message_id=record.message_id,
                        deliver_at=self._deliver_at,
                        deliver_after=self._deliver_after,
                    )
                    self._open.append(sent)
                    if len(self._open) > _UNCONFIRMED:
                        self._confirm()
                        progress.update(task, completed=self.confirmed)
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


@contextmanager
def _progress() -> Iterator[tuple[Progress, TaskID]]:
    """Shows a running count if standard error is a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records durable"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress, progress.add_task("publish", total=None)
