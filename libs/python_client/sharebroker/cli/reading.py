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


class BadInputError(ValueError):
    """A line that is not a valid record; the message names the line."""


def read(lines: Iterable[bytes], written: Format, key: str | None) -> Iterator[Input]:
    """Yields the records of `lines`, keyed by the field `key` if it is set. Raises BadInputError.

    With `lines` and `jsonl` a line is a value. With `csv` a row becomes a JSON object.
    """
    if written is Format.LINES:
        return (Input(None, line.rstrip(b"\r\n")) for line in lines)
    return _json_lines(lines, key) if written is Format.JSONL else _csv(lines, key)


def _json_lines(lines: Iterable[bytes], key: str | None) -> Iterator[Input]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as failure:
            raise BadInputError(f"Line {number} is not JSON: {failure}.") from None
        if key is not None and not isinstance(row, dict):
            raise BadInputError(f"Line {number} is not a JSON object, so it has no field {key!r}.")
        yield Input(None if key is None else _key(row, key, number), line.strip())


def _csv(lines: Iterable[bytes], key: str | None) -> Iterator[Input]:
    reader = csv.DictReader(_decoded(lines), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise BadInputError(f"Line {reader.line_num} does not have as many fields as the header.")
            value = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
            yield Input(None if key is None else _key(row, key, reader.line_num), value)
    except (csv.Error, UnicodeDecodeError) as failure:
        raise BadInputError(f"Line {reader.line_num + 1} is not CSV: {failure}.") from None


def _key(row: dict[str, object], field: str, line: int) -> bytes | None:
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
