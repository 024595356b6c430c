"""The project's own files and their syntax trees, for the rules in this folder."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "deploy", "docs", "libs", "protos", "services", "tests")
CLIENT = "libs/python_client/sharebroker/"
PROTOCOL = "libs/protocol/sharebroker_protocol/"

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node that hold statements, or nodes that hold statements."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def name(path: Path) -> str:
    """Returns the path below the project's folder."""
    return path.relative_to(ROOT).as_posix()


@cache
def files() -> tuple[Path, ...]:
    """Returns every file that a person wrote: no generated code, no caches."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    beside = [path for path in ROOT.iterdir() if not path.name.startswith(".")]
    return tuple(
        sorted(
            path
            for path in inside + beside
            if "__pycache__" not in path.parts and "_pb2" not in path.name and path.is_file()
        )
    )


@cache
def content(path: Path) -> str:
    """Returns the text of a file; bytes that are not UTF-8 become replacement characters."""
    return path.read_bytes().decode("utf-8", "replace")


@cache
def python(*folders: str) -> tuple[Path, ...]:
    """Returns the Python files below `folders`."""
    return tuple(path for path in files() if path.suffix == ".py" and name(path).startswith(folders))


def is_core(path: Path) -> bool:
    """Returns whether the file belongs to a `core` package, which holds pure rules."""
    return "core" in path.relative_to(ROOT).parts[:-1]


@cache
def tree(path: Path) -> ast.Module:
    """Returns the parsed file."""
    parsed = ast.parse(content(path), str(path))
    gc.freeze()  # the trees live as long as the run, and visiting them for garbage takes most of its time
    return parsed


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Returns every node of the file's syntax tree; all rules share one walk."""
    return tuple(ast.walk(tree(path)))


@cache
def statements(path: Path) -> tuple[ast.stmt, ...]:
    """Returns every statement of the file, nested ones included: a tenth of its nodes."""
    found: list[ast.stmt] = []
    pending: list[ast.AST] = [tree(path)]
    while pending:
        node = pending.pop()
        for block in _BLOCKS:
            inner = getattr(node, block, ())
            if isinstance(inner, list):  # a lambda's body is an expression
                pending += inner
                found += [statement for statement in inner if isinstance(statement, ast.stmt)]
    return tuple(found)


def functions(path: Path) -> Iterator[Function]:
    """Yields every function and method of the file, nested ones included."""
    return (statement for statement in statements(path) if isinstance(statement, Function))


def length(function: Function) -> int:
    """Returns the lines of a function without decorators and docstring."""
    body = function.body
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (body[0].end_lineno or 0) - body[0].lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring
