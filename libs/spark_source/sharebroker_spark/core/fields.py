"""Checks the fields of option `value.schema`, to report errors by the option's name.

The check is lenient: Spark itself rejects what passes wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MAX_DECIMAL_DIGITS: Final = 38
_NAMED: Final = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)(.*)", re.DOTALL)
_TYPE: Final = re.compile(
    r"\s*(array|bigint|binary|boolean|byte|char|character|date|dec|decimal|double|float|int|integer|interval|long|map"
    r"|numeric|real|short|smallint|string|struct|time|timestamp(?:_[ln]tz)?|tinyint|varchar|variant|void)\b\s*(.*)",
    re.DOTALL | re.IGNORECASE,
)
_DECIMAL: Final = re.compile(r"\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\).*", re.DOTALL)
_DECIMALS: Final = ("dec", "decimal", "numeric")
_OPENING, _CLOSING = "<(", ">)"
_EXAMPLE: Final = "as in 'id BIGINT, name STRING'"


def check_fields(text: str) -> str | None:
    """Returns why Spark cannot parse these fields, or None. Text with quotes (comments) is not checked."""
    if "'" in text or '"' in text:
        return None
    names = set()
    for field in _split(text):
        named = _NAMED.fullmatch(field)
        if named is None:
            return f"has a field {field.strip()!r}; a field is a name and a type of Spark's, {_EXAMPLE}"
        name, kind = named.groups()
        if name in names:
            return f"has two fields {name}; each name must be unique"
        names.add(name)
        if (reason := _check_type(kind)) is not None:
            return f"has a field {field.strip()!r}{reason}"
    return None


def _check_type(text: str) -> str | None:
    """Returns the end of the reason, or None."""
    found = _TYPE.fullmatch(text)
    if found is None:
        return f"; a field is a name and a type of Spark's, {_EXAMPLE}"
    kind, rest = found[1].lower(), found[2]
    if kind in _DECIMALS:
        return _check_decimal(rest)
    if kind == "struct":
        fields = _inside(rest)
        reason = check_fields(fields) if fields and fields.strip() else None
        return reason and f", which {reason}"
    if kind in ("array", "map"):
        return next(filter(None, map(_check_type, _split(_inside(rest) or "void"))), None)
    return None


def _check_decimal(rest: str) -> str | None:
    digits = _DECIMAL.match(rest)
    if digits is None:
        return None
    precision, scale = int(digits[1]), int(digits[2] or 0)
    if 1 <= precision <= _MAX_DECIMAL_DIGITS and 0 <= scale <= precision:
        return None
    return f"; DECIMAL must have 1 to {_MAX_DECIMAL_DIGITS} digits, and a scale from 0 to that number"


def _inside(text: str) -> str | None:
    """Returns the text between the angle brackets at the start of `text`, or None without brackets."""
    ends = [at for at, depth in _depths(text) if depth == 0]
    return text[1 : ends[0]] if text.startswith("<") and ends else None


def _split(text: str) -> Iterator[str]:
    """Yields the parts between commas that are outside all brackets."""
    start = 0
    for at, depth in _depths(text):
        if depth == 0 and text[at] == ",":
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Yields each index with the number of brackets open after it, ignoring brackets in quoted names."""
    depth, quoted = 0, False
    for at, letter in enumerate(text):
        quoted ^= letter == "`"
        if not quoted:
            depth += (letter in _OPENING) - (letter in _CLOSING)
            yield at, depth
