"""Reads the input of `produce` into records, line by line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple


class Format(StrEnum):
    """The input format."""

    LINES = "lines"
    JSONL = "jsonl"
    CSV = "csv"


class Input(NamedTuple):
    """A record to publish."""

    key: bytes | None
    value: bytes
    message_id: bytes | None = None


class Fields(NamedTuple):
    """The names of the fields that hold a record's key and message id; None for none."""

    key: str | None = None
    message_id: str | None = None

    def of(self, row: dict[str, object], line: int) -> tuple[bytes | None, bytes | None]:
        """Returns key and message id of a row. Raises BadInputError."""
        key, message_id = (None if name is None else _field(row, name, line) for name in self)
        return key, message_id


class BadInputError(ValueError):
    """A line that is not a valid record; the message names the line."""


def read(
    lines: Iterable[bytes], written: Format, fields: Fields = Fields(), key_separator: bytes | None = None
) -> Iterator[Input]:
    """Yields the records of `lines`, with the named fields as key and message id. Raises BadInputError.

    With `lines` and `jsonl` a line is a value. With `csv` a row becomes a JSON object. With `lines` and a
    `key_separator`, the text before the first separator is the key.
    """
    if written is Format.LINES:
        plain = (line.rstrip(b"\r\n") for line in lines)
        return _keyed(plain, key_separator) if key_separator else (Input(None, line) for line in plain)
    return _json_lines(lines, fields) if written is Format.JSONL else _csv(lines, fields)


def _keyed(lines: Iterable[bytes], separator: bytes) -> Iterator[Input]:
    for number, line in enumerate(lines, 1):
        key, found, value = line.partition(separator)
        if not found:
            raise BadInputError(f"Line {number} has no key separator {separator.decode()!r}.")
        yield Input(key, value)


class CountedLines:
    """Lines, and the bytes of those that were read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.read_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.read_bytes += len(line)
            yield line


def _json_lines(lines: Iterable[bytes], fields: Fields) -> Iterator[Input]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as failure:
            raise BadInputError(f"Line {number} is not JSON: {failure}.") from None
        named = next(filter(None, fields), None)
        if named is not None and not isinstance(row, dict):
            raise BadInputError(f"Line {number} is not a JSON object, so it has no field {named!r}.")
        key, message_id = fields.of(row, number)
        yield Input(key, line.strip(), message_id)


def _csv(lines: Iterable[bytes], fields: Fields) -> Iterator[Input]:
    reader = csv.DictReader(_decoded(lines), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise BadInputError(f"Line {reader.line_num} does not have as many fields as the header.")
            value = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
            key, message_id = fields.of(row, reader.line_num)
            yield Input(key, value, message_id)
    except (csv.Error, UnicodeDecodeError) as failure:
        raise BadInputError(f"Line {reader.line_num + 1} is not CSV: {failure}.") from None


def _field(row: dict[str, object], field: str, line: int) -> bytes | None:
    if field not in row:
        raise BadInputError(f"Line {line} has no field {field!r}; it has {', '.join(map(str, row))}.")
    value = row[field]
    if value is None:
        return None
    try:
        return (value if isinstance(value, str) else json.dumps(value)).encode()
    except UnicodeEncodeError:
        raise BadInputError(f"Line {line} has an unpaired surrogate in field {field!r}.") from None


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield line.decode("utf-8" if number else "utf-8-sig")
