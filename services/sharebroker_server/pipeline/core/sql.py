"""Text in Spark's SQL."""

from __future__ import annotations

from collections.abc import Mapping


def literal(text: str) -> str:
    """A string as an expression, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def looked_up(values: Mapping[str, int], key: str, default: int) -> str:
    """An expression: the value of an expression `key` among `values`, or the default."""
    cases = "".join(f" WHEN {literal(name)} THEN {value}" for name, value in sorted(values.items()))
    return f"CASE {key}{cases} ELSE {default} END" if cases else str(default)
