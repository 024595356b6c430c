"""Expressions of Spark's SQL: the rules that reject a flight from silver, and literals.

The rules read the columns `text` (the record's value or NULL), `sound` (whether it is UTF-8) and `raw` (its
JSON fields as text). The first rule that applies rejects the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

TEXTS: Final = ("date", "carrier", "flight", "tailnum", "origin", "dest")
NUMBERS: Final = ("dep_time", "dep_delay", "arr_delay")
_NEEDED: Final = ("date", "carrier", "origin", "dest")
_LATEST: Final = 2400
_MAX_QUOTED: Final = 30
"""The number of characters of an invalid value in the reason."""

RAW_SCHEMA: Final = ", ".join(f"{name} STRING" for name in (*TEXTS, *NUMBERS, "_corrupt"))
"""All fields as text, to distinguish an invalid number from a missing one."""


class Rule(NamedTuple):
    """Rejects a record if `condition` holds; both are SQL, and `reason` yields a string."""

    condition: str
    reason: str


def rules() -> list[Rule]:
    """Returns all rules in order."""
    return [
        Rule("text IS NULL", "'no value'"),
        Rule("NOT sound", "'not UTF-8'"),
        Rule("raw IS NULL OR raw._corrupt IS NOT NULL", f"concat('not a JSON object: ', {_quoted('text')})"),
        *(Rule(f"coalesce(raw.{name}, '') = ''", f"'{name} is missing'") for name in _NEEDED),
        Rule("try_to_date(raw.date, 'yyyy-MM-dd') IS NULL", _not("date", "a date")),
        *(
            Rule(f"raw.{name} IS NOT NULL AND try_cast(raw.{name} AS INT) IS NULL", _not(name, "a number"))
            for name in NUMBERS
        ),
        Rule(
            f"CAST(raw.dep_time AS INT) NOT BETWEEN 0 AND {_LATEST} OR CAST(raw.dep_time AS INT) % 100 > 59",
            _not("dep_time", "a time of day"),
        ),
        Rule("raw.dep_time IS NULL", "'never departed'"),
        Rule("raw.arr_delay IS NULL", "'no arrival'"),
    ]


def reason() -> str:
    """Returns an expression for the reason of a rejection, or NULL."""
    cases = " ".join(f"WHEN {rule.condition} THEN {rule.reason}" for rule in rules())
    return f"CASE {cases} END"


def typed() -> list[str]:
    """Returns expressions of the columns of silver; `hour` is that of departure, 0 to 23."""
    texts = [f"raw.{name} AS {name}" for name in TEXTS if name != "date"]
    numbers = [f"CAST(raw.{name} AS INT) AS {name}" for name in NUMBERS]
    return [
        "to_date(raw.date, 'yyyy-MM-dd') AS date",
        *texts,
        *numbers,
        "CAST(CAST(raw.dep_time AS INT) DIV 100 % 24 AS INT) AS hour",
    ]


def _not(name: str, what: str) -> str:
    return f"concat('{name} is not {what}: ', {_quoted(f'raw.{name}')})"


def _quoted(expression: str) -> str:
    return f"left({expression}, {_MAX_QUOTED})"


def literal(text: str) -> str:
    """Returns a string literal with any content."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def lookup(values: Mapping[str, int], key: str, default: int) -> str:
    """Returns an expression that maps `key` to one of `values`, or to the default."""
    cases = "".join(f" WHEN {literal(name)} THEN {value}" for name, value in sorted(values.items()))
    return f"CASE {key}{cases} ELSE {default} END" if cases else str(default)
