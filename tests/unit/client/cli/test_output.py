from __future__ import annotations

import io

import pytest
from rich.console import Console

from sharebroker.cli.output import Column, cell, numbers, table, text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        ({"a": 1, "b": 2}, "a=1, b=2"),
        ({}, "-"),
        (["x", 1], "x, 1"),
        ([], "-"),
        ("text", "text"),
    ],
)
def test_cell(value: object, shown: str) -> None:
    assert cell(value) == shown


@pytest.mark.parametrize(
    ("values", "shown"), [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 2, 3, 7], "0, 2-3, 7")]
)
def test_numbers_join_runs(values: list[int], shown: str) -> None:
    assert numbers(values) == shown


def test_table_aligns_numbers_right() -> None:
    console = Console(width=40, record=True, file=io.StringIO())
    console.print(table([{"a": "x", "n": 7}], (Column("A", "a"), Column("NUM", "n", number=True))))
    shown = console.export_text().splitlines()
    assert [line.rstrip() for line in shown] == ["A  NUM", "x    7"]


def test_text_shows_what_is_not_utf8() -> None:
    assert text(None) is None
    assert text(b"a\xff") == "a�"
