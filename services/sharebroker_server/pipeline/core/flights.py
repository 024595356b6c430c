"""What a flight must be to become a row of silver; the rules are expressions of Spark's SQL.

They read columns `text` (the record's value, None where there is none), `sound` (whether it is UTF-8) and
`raw` (its JSON fields, each as text). A record is rejected by the first rule that holds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TEXTS: Final = ("date", "carrier", "flight", "tailnum", "origin", "dest")
NUMBERS: Final = ("dep_time", "dep_delay", "arr_delay")
_NEEDED: Final = ("date", "carrier", "origin", "dest")
_LATEST: Final = 2400
_SHOWN: Final = 30
"""Characters of a bad value that the reason repeats."""

RAW_SCHEMA: Final = ", ".join(f"{name} STRING" for name in (*TEXTS, *NUMBERS, "_corrupt"))
"""All fields as text: what is no number can be told from what is not there."""


class Rule(NamedTuple):
    """Holds for a record that is to be rejected; both are SQL, the reason makes a string."""

    condition: str
    reason: str


def rules() -> list[Rule]:
    """All rules, in order."""
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
    """An expression: why a record is rejected, or NULL."""
    cases = " ".join(f"WHEN {rule.condition} THEN {rule.reason}" for rule in rules())
    return f"CASE {cases} END"


def typed() -> list[str]:
    """Expressions of the columns of silver; `hour` is that of departure, 0 to 23."""
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
    return f"left({expression}, {_SHOWN})"
