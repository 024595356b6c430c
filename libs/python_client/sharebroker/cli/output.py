"""Output of commands: data as a table or as JSON, one-line error messages, exit codes, standard streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.exceptions import TyperException

from sharebroker.cli.reading import BadInputError
from sharebroker_protocol.errors import TRANSPORT, ErrorCode, KafkaError

Row = Mapping[str, Any]

_WIDE: Final = 500


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, the key of its values in a row, and whether these are numbers."""

    heading: str
    key: str
    number: bool = False


def columns(*keys: str) -> tuple[Column, ...]:
    """Returns columns by the keys of their values: "topic", "partition#" for a number, "lag# HEADING".

    The heading is the key in capitals unless it is given.
    """
    found = []
    for text in keys:
        key, _, heading = text.partition(" ")
        name = key.removesuffix("#")
        found.append(Column(heading or name.upper().replace("_", " "), name, number=key.endswith("#")))
    return tuple(found)


def console() -> Console:
    """Returns standard output as a console; it does not wrap lines unless it is a terminal."""
    shown = Console()
    return shown if shown.is_terminal else Console(width=_WIDE)


def table(rows: Sequence[Row], columns: Sequence[Column], title: str | None = None) -> Table:
    """Returns rows as a table without a frame."""
    result = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column.number else "left"
        result.add_column(column.heading, justify=justify, overflow="fold", no_wrap=index == 0)
    for row in rows:
        result.add_row(*(escape(cell(row.get(column.key))) for column in columns))
    return result


def cell(value: object) -> str:
    """Formats a value for people; `-` for a missing one."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def numbers(values: Sequence[int]) -> str:
    """Formats integers with ranges: 0-3, 7."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and runs[-1][1] + 1 == value:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def amount(number: int, noun: str) -> str:
    """Formats a number of things: "1 topic", "2,000 topics"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def readable_time(seconds: float) -> str:
    """Formats a time since the Unix epoch as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def text(data: bytes | None) -> str | None:
    """Decodes UTF-8; invalid bytes become replacement characters."""
    return None if data is None else data.decode("utf-8", "replace")


def printable(data: bytes | None) -> str | None:
    """Decodes UTF-8 for a terminal; control characters other than line ends become escape sequences."""
    decoded = text(data)
    if decoded is None or decoded.isprintable():
        return decoded
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in decoded)


def print_json(data: object) -> None:
    """Prints one JSON document."""
    console().print_json(json.dumps(data), indent=2)


def print_rows(rows: Sequence[Row], columns: Sequence[Column], as_json: bool, nothing: str) -> None:
    """Prints a table or a JSON list; without rows, the notice `nothing` instead of a table."""
    if as_json:
        print_json([dict(row) for row in rows])
    elif rows:
        console().print(table(rows, columns))
    else:
        print_notice(nothing)


def rows_view(rows: Sequence[Row], columns: Sequence[Column], nothing: str) -> RenderableType:
    """Returns rows as a table, or the notice `nothing`."""
    return table(rows, columns) if rows else Text(nothing)


def print_done(result: object, as_json: bool, sentence: str) -> None:
    """Prints the result of a change as JSON, or a sentence for people."""
    if as_json:
        print_json(result)
    else:
        print_notice(sentence)


def print_facts(facts: Row, as_json: bool) -> None:
    """Prints names and values, one pair per line, or as JSON."""
    if as_json:
        print_json(facts)
    else:
        console().print(facts_view(facts))


def facts_view(facts: Row) -> Table:
    """Returns names and values, one pair per line."""
    result = Table(box=None, pad_edge=False, show_header=False)
    result.add_column(style="bold")
    result.add_column(overflow="fold")
    for name, value in facts.items():
        result.add_row(name, escape(cell(value)))
    return result


def stderr() -> Console:
    """Returns standard error as a console."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_notice(message: str) -> None:
    """Prints a message for people to standard error, apart from the data."""
    stderr().print(message, markup=False)


FAILED: Final = 1
BAD_USAGE: Final = 2
UNFINISHED: Final = 3

_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`sharebroker topics list` lists the topics.",
    ErrorCode.UNKNOWN_TOPIC_ID: "`sharebroker topics list` lists the topics.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Use 1 to 249 letters, digits, dots, underscores and hyphens.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or alter it with `sharebroker topics alter`.",
    ErrorCode.GROUP_ID_NOT_FOUND: "`sharebroker groups list` lists the groups.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its consumers first; `sharebroker groups members` lists them.",
    ErrorCode.MESSAGE_TOO_LARGE: "max.message.bytes of the topic limits records, and 16 MiB are the most.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`sharebroker topics describe` lists the offsets.",
    ErrorCode.REQUEST_TIMED_OUT: "The request may have been applied or not: check, then try again.",
    ErrorCode.KAFKA_STORAGE_ERROR: "Free disk space or memory on the server's Redis, then try again.",
}

_NAMES: Final[Mapping[type[Exception], str]] = {
    TyperException: "INVALID_USAGE",
    BadInputError: "INVALID_INPUT",
    OSError: "IO_ERROR",
}
"""The names of other failures in JSON documents."""

_NO_SERVER: Final = "Start a server with `sharebroker serve`, or name one with --server."


def explain(failure: Exception) -> str:
    """Returns the failure as one line of text."""
    if isinstance(failure, KafkaError):
        advice = _ADVICE.get(failure.code, "Try again." if failure.retriable else "")
        if failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE and TRANSPORT in failure.metadata:
            advice = _NO_SERVER
        return " ".join(part for part in (*_sentences(failure), advice) if part)
    if isinstance(failure, BadInputError):
        return str(failure)
    if isinstance(failure, TyperException):
        return " ".join(failure.format_message().split())
    if isinstance(failure, OSError) and failure.strerror:
        return f"{failure.strerror}: {failure.filename}" if failure.filename else failure.strerror
    return f"{type(failure).__name__}: {failure}"


def print_failure(
    failure: Exception, as_json: bool, command: str = "sharebroker", message: str | None = None
) -> None:
    """Prints a failure to standard error: as one line for people, or as one JSON document.

    The document has the name of the error, the message, and whether the same command may succeed later. The
    name is one of Kafka's errors, INVALID_USAGE, INVALID_INPUT or IO_ERROR; otherwise that of the exception.
    """
    text = message or explain(failure)
    if not as_json:
        print_notice(f"{command}: {text}")
        return
    document: dict[str, Any] = {"error": _name(failure), "message": text}
    if isinstance(failure, KafkaError):
        document["retriable"] = failure.retriable
    stderr().print(json.dumps(document), markup=False)


def _name(failure: Exception) -> str:
    if isinstance(failure, KafkaError):
        return failure.code.name
    names = (name for kind, name in _NAMES.items() if isinstance(failure, kind))
    return next(names, type(failure).__name__)


def _sentences(error: KafkaError) -> tuple[str, ...]:
    violations = tuple(
        f"{found.field}: {found.description}"
        for found in error.violations
        if found.description != error.message
    )
    return tuple(" ".join(part.split()) for part in (error.message, *violations))


_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def replace_closed_streams() -> None:
    """Opens /dev/null for each standard stream that is closed.

    Otherwise the next file or socket would get its descriptor: libuv aborts when it closes such a socket, and
    output would be sent to its peer.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null := os.open(os.devnull, os.O_RDWR), number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - stays open
