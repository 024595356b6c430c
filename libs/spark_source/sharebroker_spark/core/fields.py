"""The fields of option `value.schema`: what Spark would refuse in its own words is refused by its name.

Errs to the side of letting through: what is let through wrongly, Spark refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_LONGEST_DECIMAL: Final = 38
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
    """Why Spark cannot read these fields; None: it can, as far as is looked. Looks at nothing in comments."""
    if "'" in text or '"' in text:
        return None
    names = set()
    for one in _split(text):
        named = _NAMED.fullmatch(one)
        if named is None:
            return f"has a field {one.strip()!r}; a field is a name and a type of Spark's, {_EXAMPLE}"
        name, kind = named.groups()
        if name in names:
            return f"has two fields {name}; each name may be there once"
        names.add(name)
        if (why := _check_type(kind)) is not None:
            return f"has a field {one.strip()!r}{why}"
    return None


def _check_type(text: str) -> str | None:
    """How the reason ends, with what comes before it."""
    found = _TYPE.fullmatch(text)
    if found is None:
        return f"; a field is a name and a type of Spark's, {_EXAMPLE}"
    kind, rest = found[1].lower(), found[2]
    if kind in _DECIMALS:
        return _check_decimal(rest)
    if kind == "struct":
        fields = _inside(rest)
        why = check_fields(fields) if fields and fields.strip() else None
        return why and f", which {why}"
    if kind in ("array", "map"):
        return next(filter(None, map(_check_type, _split(_inside(rest) or "void"))), None)
    return None


def _check_decimal(rest: str) -> str | None:
    digits = _DECIMAL.match(rest)
    if digits is None:
        return None
    precision, scale = int(digits[1]), int(digits[2] or 0)
    if 1 <= precision <= _LONGEST_DECIMAL and 0 <= scale <= precision:
        return None
    return f"; DECIMAL has 1 to {_LONGEST_DECIMAL} digits, of which 0 to all are behind the point"


def _inside(text: str) -> str | None:
    """What stands between the angle brackets that a text begins with; None: there are none."""
    ends = [at for at, depth in _depths(text) if depth == 0]
    return text[1 : ends[0]] if text.startswith("<") and ends else None


def _split(text: str) -> Iterator[str]:
    """What stands between commas, outside of all brackets."""
    begin = 0
    for at, depth in _depths(text):
        if depth == 0 and text[at] == ",":
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Each place and how many brackets are open behind it, without those in names."""
    depth, quoted = 0, False
    for at, letter in enumerate(text):
        quoted ^= letter == "`"
        if not quoted:
            depth += (letter in _OPENING) - (letter in _CLOSING)
            yield at, depth
