"""Expressions of Spark's SQL: the stages from a record to a row, and literals.

Each stage is a list of expressions on the columns of the stage before. The first has the columns of
`bronze_records`. The last has the delivery, the fields, and `_verdict`: why the record is rejected, or NULL.
The first reason that applies counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharebroker_server.pipeline.core.definition import DELIVERY, Definition, FieldType

_MAX_QUOTED: Final = 30
"""The number of characters of an invalid value in the reason."""
_MAX_BYTES_SHOWN: Final = 200
_TEXT: Final = "STRING"
_CARRIED: Final = (*(f"_{name}" for name in DELIVERY), "_text")

DECODED: Final = "_decoded"
"""A column that the caller adds before the stages of Avro and Arrow values: value and reason."""

Stage = list[str]


def stages(definition: Definition) -> list[Stage]:
    """Returns the stages of the definition's format."""
    parsed = _json(definition) if definition.value.format == "json" else _decoded(definition)
    return [*parsed, ["*", f"{_first_reason(definition)} AS _verdict"]]


def accepted(definition: Definition) -> Stage:
    """Returns the columns of `silver_records`, computed for rows without a reason."""
    row = ["_row"] if definition.value.format == "arrow" else []
    further = [f"{text} AS {quoted(name)}" for name, text in definition.columns.items()]
    return [*(f"_{name}" for name in DELIVERY), *row, *map(quoted, definition.value.fields), *further]


def rejected(definition: Definition) -> Stage:
    """Returns the columns of `silver_rejected`."""
    row = ["_row AS row"] if definition.value.format == "arrow" else []
    return [*(f"_{name} AS {name}" for name in DELIVERY), *row, "_text AS text", "_verdict AS reason"]


def row_type(definition: Definition) -> str:
    """Returns the fields of a value as a type of Spark's."""
    fields = (f"{quoted(name)}: {kind.kind}" for name, kind in definition.value.types().items())
    return f"STRUCT<{', '.join(fields)}>"


def _json(definition: Definition) -> list[Stage]:
    """All fields are read as text, to distinguish an invalid number from a missing one."""
    types = definition.value.types()
    names = ", ".join(f"{quoted(name)} STRING" for name in (*types, "_corrupt_record"))
    text = "IF(is_valid_utf8(CAST(value AS STRING)), CAST(value AS STRING), NULL)"
    options = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt_record')"
    parsed = f"from_json({text}, {literal(names)}, {options}) AS _raw"
    whole = _cases(
        {
            "_text IS NULL": "'no value'",
            "startswith(_text, char(0))": "'a zero byte precedes the value, as before a schema id'",
            "NOT _sound": "'not UTF-8'",
            "_raw IS NULL OR _raw._corrupt_record IS NOT NULL": (
                f"concat('not a JSON object: ', {_left('_text')})"
            ),
        }
    )
    typed = {name: typed_text(f"_raw.{quoted(name)}", kind) for name, kind in types.items()}
    invalid = {
        f"_raw.{quoted(name)} IS NOT NULL AND {typed[name]} IS NULL": _mismatch(name, types[name])
        for name in types
        if types[name].kind.upper() != _TEXT
    }
    missing = _missing(types, "_raw.")
    return [
        [
            *_delivery(),
            "make_valid_utf8(CAST(value AS STRING)) AS _text",
            "is_valid_utf8(CAST(value AS STRING)) AS _sound",
            parsed,
        ],
        [
            *_CARRIED,
            f"coalesce({whole}, {_cases(missing | invalid)}) AS _reason",
            *(f"{expression} AS {quoted(name)}" for name, expression in typed.items()),
        ],
    ]


def _decoded(definition: Definition) -> list[Stage]:
    types = definition.value.types()
    shown = f"hex(left(value, {_MAX_BYTES_SHOWN})) AS _text"
    arrow = definition.value.format == "arrow"
    row = "posexplode_outer(_decoded.value) AS (_row, _fields)" if arrow else "_decoded.value AS _fields"
    whole = {"_decoded.reason IS NOT NULL": "_decoded.reason"}
    if arrow:
        whole |= {"_row IS NULL": "'no rows'"}
    carried = [*_CARRIED, *(["_row"] if arrow else [])]
    return [
        [*_delivery(), shown, "_decoded", row],
        [
            *carried,
            f"{_cases(whole | _missing(types, '_fields.'))} AS _reason",
            *(f"_fields.{quoted(name)} AS {quoted(name)}" for name in types),
        ],
    ]


def _delivery() -> Stage:
    return [f"{name} AS _{name}" for name in DELIVERY]


def _missing(types: Mapping[str, FieldType], row: str) -> dict[str, str]:
    required = [name for name, kind in types.items() if kind.required]
    return {f"{row}{quoted(name)} IS NULL": literal(f"{name} is missing") for name in required}


def _first_reason(definition: Definition) -> str:
    failed = {f"NOT ({condition})": literal(reason) for reason, condition in definition.checks.items()}
    return f"coalesce(_reason, {_cases(failed)})"


def _cases(rules: Mapping[str, str]) -> str:
    """Returns the reason of the first condition that holds, or NULL."""
    cases = " ".join(f"WHEN {condition} THEN {reason}" for condition, reason in rules.items())
    return f"CASE {cases} END" if cases else "CAST(NULL AS STRING)"


def typed_text(text: str, kind: FieldType) -> str:
    """Returns an expression that converts text of JSON to a type, or yields NULL."""
    if kind.nested:
        return f"from_json({text}, {literal(kind.kind)})"
    match kind.kind.upper():
        case sql_type if sql_type == _TEXT:
            return text
        case "DATE":
            return f"try_to_date({text}, 'yyyy-MM-dd')"
        case "BINARY":
            return f"try_to_binary({text}, 'base64')"
        case _:
            return f"try_cast({text} AS {kind.kind})"


def _mismatch(name: str, kind: FieldType) -> str:
    return f"concat({literal(f'{name} is not {kind.meaning}: ')}, {_left(f'_raw.{quoted(name)}')})"


def _left(expression: str) -> str:
    return f"left({expression}, {_MAX_QUOTED})"


def quoted(name: str) -> str:
    """Returns the name of a column in SQL."""
    return f"`{name}`"


def literal(text: str) -> str:
    """Returns a string literal with any content."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def lookup(values: Mapping[str, int], key: str, default: int) -> str:
    """Returns an expression that maps `key` to one of `values`, or to the default."""
    cases = "".join(f" WHEN {literal(name)} THEN {value}" for name, value in sorted(values.items()))
    return f"CASE {key}{cases} ELSE {default} END" if cases else str(default)
