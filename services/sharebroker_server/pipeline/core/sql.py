"""Literals and expressions of Spark's SQL."""

from __future__ import annotations

from collections.abc import Mapping


def literal(text: str) -> str:
    """Returns a string literal with any content."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def lookup(values: Mapping[str, int], key: str, default: int) -> str:
    """Returns an expression that maps `key` to one of `values`, or to the default."""
    cases = "".join(f" WHEN {literal(name)} THEN {value}" for name, value in sorted(values.items()))
    return f"CASE {key}{cases} ELSE {default} END" if cases else str(default)
