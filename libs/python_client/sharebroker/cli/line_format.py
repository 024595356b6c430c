"""Formats of the lines that `consume` prints."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Annotated, Final

import typer

from sharebroker.cli.output import readable_time
from sharebroker.cli.session import document
from sharebroker_protocol.records.record import Record

_HEADER: Final = "header"
_FIELDS: Final[Mapping[str, Callable[[Record], bytes]]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % record.timestamp,
    "time": lambda record: readable_time(record.timestamp / 1000).encode(),
    "delivery": lambda record: b"%d" % record.delivery_count,
    "key": lambda record: record.key or b"",
    "value": lambda record: record.value or b"",
}
FIELDS: Final = (*_FIELDS, f"{_HEADER}:NAME")
"""The fields of a format."""


class LineFormat:
    """A template such as `{partition}/{offset} {key}: {value}`; key, value and headers keep their bytes."""

    def __init__(self, template: str) -> None:
        r"""Raises ValueError for an unknown field. `\t`, `\n` and `\0` are as in Python; `{{` is a brace."""
        self._parts = [
            part
            for text, field, name, conversion in Formatter().parse(template)
            for part in (_text(text), _field(field, name, conversion))
        ]

    def line(self, record: Record) -> bytes:
        """Returns the line of a record, without its end."""
        return b"".join(part(record) for part in self._parts)


def _text(text: str) -> Callable[[Record], bytes]:
    raw = text.encode("unicode_escape").replace(b"\\\\", b"\\")  # only the typed escapes are resolved
    data = codecs.decode(raw, "unicode_escape").encode()
    return lambda _: data


def _field(field: str | None, name: str | None, conversion: str | None) -> Callable[[Record], bytes]:
    if field is None:
        return lambda _: b""
    if field == _HEADER and name and not conversion:
        return lambda record: next((value or b"" for each, value in record.headers if each == name), b"")
    if field not in _FIELDS or name or conversion:
        raise ValueError(f"{{{field}}} is not one of {', '.join(f'{{{one}}}' for one in FIELDS)}.")
    return _FIELDS[field]


def _parse(template: str) -> LineFormat:
    """Raises typer.BadParameter."""
    try:
        return LineFormat(template)
    except ValueError as failure:
        raise typer.BadParameter(str(failure)) from None


Form = Annotated[
    LineFormat | None,
    typer.Option(
        "--format",
        metavar="TEMPLATE",
        parser=_parse,
        help="What to print of each record: text with {topic}, {partition}, {offset}, {time}, {timestamp}, "
        "{delivery}, {key}, {value} or {header:NAME}.",
        show_default=False,
    ),
]


def printer(form: LineFormat | None, as_json: bool) -> Callable[[Record], bytes]:
    """Returns the function that makes the line of a record; by default its value."""
    if form is not None:
        return form.line
    if as_json:
        return lambda record: json.dumps(document(record), ensure_ascii=False).encode()
    return lambda record: record.value or b""
