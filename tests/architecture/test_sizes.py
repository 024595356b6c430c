"""Size budgets: a module of rules stays short enough to read in one sitting."""

from __future__ import annotations

import ast
from statistics import median, quantiles

from tests.architecture.sources import content, functions, is_core, length, name, nodes, python, tree
from tests.perf.size import MANY_IMPORTS, import_statements

LONGEST_FILE = 500
LONGEST_FUNCTION = 50
MEDIAN_FUNCTION = 10
NINTH_DECILE = 30
LONGEST_RPC = 15
MOST_PARAMETERS = 6
MOST_IMPORTING_MUCH = 20
"""Modules with more than `MANY_IMPORTS` top-level imports: those that compose others."""

CORES = [path for path in python("services", "libs") if is_core(path)]


def test_core_files_are_short() -> None:
    long = {name(path): lines for path in CORES if (lines := len(content(path).splitlines())) > LONGEST_FILE}
    assert not long


def test_no_core_function_is_long() -> None:
    long = {
        f"{name(path)}:{function.name}": length(function)
        for path in CORES
        for function in functions(path)
        if length(function) > LONGEST_FUNCTION
    }
    assert not long


def test_most_core_functions_are_tiny() -> None:
    lengths = [length(function) for path in CORES for function in functions(path)]
    assert median(lengths) <= MEDIAN_FUNCTION
    assert quantiles(lengths, n=10)[-1] <= NINTH_DECILE


def test_rpc_methods_only_translate() -> None:
    long = {
        f"{name(path)}:{function.name}": length(function)
        for path in python("services")
        for function in functions(path)
        if function.name[0].isupper() and length(function) > LONGEST_RPC
    }
    assert not long


def test_constructors_take_few_parameters() -> None:
    wide = {
        f"{name(path)}:{owner.name}": count
        for path in python("services", "libs")
        for owner in nodes(path)
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        if (count := _parameters(method)) > MOST_PARAMETERS
    }
    assert not wide


def test_few_modules_have_many_imports() -> None:
    many = [name(path) for path in python("services", "libs") if import_statements(tree(path)) > MANY_IMPORTS]
    assert len(many) <= MOST_IMPORTING_MUCH, f"these have more than {MANY_IMPORTS}: move responsibilities"


def _parameters(method: ast.FunctionDef) -> int:
    arguments = method.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs) - 1
