"""Product size: the counted lines, classes and imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.perf.size import Size, code_lines, main, measure, measure_source, named, table

SOURCE = '''\
"""A docstring
of two lines."""

import os  # a comment beside code


class Thing:
    """What it is."""

    size: int = 1
    """Below an attribute."""

    def grow(self) -> str:
        # a comment alone
        import sys

        return """text
that counts"""
'''


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    assert code_lines(SOURCE, ast.parse(SOURCE)) == 7


def test_a_module_counts_classes_functions_and_imports_of_its_top_level() -> None:
    module = measure_source("thing.py", SOURCE)
    assert (module.classes, module.functions, module.imports) == (1, 1, 1)


def test_generated_code_and_tests_are_excluded(tmp_path: Path) -> None:
    for path in ("services/a.py", "libs/b.py", "libs/v1/c_pb2.py", "tests/d.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
    assert measure(tmp_path) == Size(lines=2, files=2, classes=0, functions=0, importing_much=())


def test_modules_with_many_imports_are_listed(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    for count in (15, 16):
        (tmp_path / "services" / f"m{count}.py").write_text("import os\n" * count)
    assert measure(tmp_path).importing_much == ("services/m16.py",)


def test_folder_without_product_code_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        measure(tmp_path)
    assert main([str(tmp_path)]) == 2


def test_two_checkouts_are_printed_with_their_difference() -> None:
    before, after = Size(5000, 20, 8, 90, ("a", "b")), Size(1900, 21, 8, 80, ())
    assert table({"before": before, "after": after}).splitlines() == [
        "|  | before | after | difference |",
        "|---|---:|---:|---:|",
        "| product lines | 5,000 | 1,900 | -3,100 |",
        "| files | 20 | 21 | +1 |",
        "| classes | 8 | 8 | +0 |",
        "| functions | 90 | 80 | -10 |",
        "| modules with more than 15 imports | 2 | 0 | -2 |",
    ]


def test_columns_can_be_named(tmp_path: Path) -> None:
    assert named(f"before={tmp_path}") == ("before", tmp_path)
    assert named(str(tmp_path)) == (tmp_path.name, tmp_path)
