"""The project's own files, as the house rules look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "deploy", "docs", "libs", "protos", "services", "tests")
CLIENT = "libs/python_client/sharebroker/"
PROTOCOL = "libs/protocol/sharebroker_protocol/"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    """The path below the project's folder."""
    return path.relative_to(ROOT).as_posix()


@cache
def files() -> tuple[Path, ...]:
    """Every file somebody wrote: no generated code, no caches."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    beside = [path for path in ROOT.iterdir() if not path.name.startswith(".")]
    return tuple(
        sorted(
            path
            for path in inside + beside
            if path.is_file() and "__pycache__" not in path.parts and "_pb2" not in path.name
        )
    )


def python(*folders: str) -> list[Path]:
    """The Python files below `folders`."""
    return [path for path in files() if path.suffix == ".py" and name(path).startswith(folders)]


def is_core(path: Path) -> bool:
    """Whether the file holds rules: it belongs to a `core` package."""
    return "core" in path.relative_to(ROOT).parts[:-1]


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(), str(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of the file, nested ones too."""
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines of a function, decorators and docstring left out."""
    body = function.body
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (body[0].end_lineno or 0) - body[0].lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring
