"""Prints the size of the product code of one or more checkouts side by side, as a Markdown table.

`python -m tests.perf.size DIR [DIR …]`; a column may be named by `before=DIR`. It only reads source files.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("services", "libs")
"""The product's code is below these folders of a checkout."""

MANY_IMPORTS: Final = 15
_NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True, slots=True)
class Module:
    """Figures of one source file; `imports` counts the import statements at its top level."""

    path: str
    lines: int
    classes: int
    functions: int
    imports: int


@dataclass(frozen=True, slots=True)
class Size:
    """Sums over all modules of a checkout."""

    lines: int
    files: int
    classes: int
    functions: int
    importing_much: tuple[str, ...]

    @classmethod
    def of(cls, modules: Iterable[Module]) -> Size:
        """The sums of `modules`."""
        found = list(modules)
        return cls(
            sum(module.lines for module in found),
            len(found),
            sum(module.classes for module in found),
            sum(module.functions for module in found),
            tuple(module.path for module in found if module.imports > MANY_IMPORTS),
        )


ROWS: Final[Mapping[str, str]] = {
    "product lines": "lines",
    "files": "files",
    "classes": "classes",
    "functions": "functions",
}


def code_lines(source: str, tree: ast.Module) -> int:
    """Number of lines with code: blank lines, comments and docstrings do not count."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - set(_docstring_lines(tree)))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Lines of every string that is a statement: docstrings of definitions and of attributes."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def measure_source(path: str, source: str) -> Module:
    """The figures of one file."""
    tree = ast.parse(source, path)
    nodes = list(ast.walk(tree))
    return Module(
        path,
        code_lines(source, tree),
        sum(isinstance(node, ast.ClassDef) for node in nodes),
        sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        import_statements(tree),
    )


def import_statements(tree: ast.Module) -> int:
    """Number of import statements at the top level of a file."""
    return sum(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)


def product_files(checkout: Path) -> list[Path]:
    """The hand-written product files of a checkout: neither generated code nor tests."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (checkout / folder).rglob("*.py")
        if "_pb2" not in path.name and "__pycache__" not in path.parts
    )


def measure(checkout: Path) -> Size:
    """The size of a checkout. Raises FileNotFoundError when it has no product code."""
    paths = product_files(checkout)
    if not paths:
        raise FileNotFoundError(f"no Python files below {', '.join(FOLDERS)} in {checkout}")
    return Size.of(
        measure_source(path.relative_to(checkout).as_posix(), path.read_text(encoding="utf-8"))
        for path in paths
    )


def table(sizes: Mapping[str, Size]) -> str:
    """A Markdown table with one column per checkout; for two checkouts also their difference."""
    names = list(sizes)
    rows = {label: [int(getattr(size, field)) for size in sizes.values()] for label, field in ROWS.items()}
    rows[f"modules with more than {MANY_IMPORTS} imports"] = [
        len(size.importing_much) for size in sizes.values()
    ]
    heads = ["", *names, *(["difference"] if len(names) == 2 else [])]
    lines = [_row(heads), "|---|" + "---:|" * (len(heads) - 1)]
    for label, values in rows.items():
        difference = [f"{values[1] - values[0]:+,}"] if len(values) == 2 else []
        lines.append(_row([label, *(f"{value:,}" for value in values), *difference]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def named(argument: str) -> tuple[str, Path]:
    """A column's name and its checkout, from NAME=DIR or DIR."""
    name, equals, folder = argument.partition("=")
    return (name, Path(folder)) if equals else (Path(argument).resolve().name, Path(argument))


def main(arguments: Sequence[str]) -> int:
    """Print the table; 2 when a folder holds no checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="*", metavar="[NAME=]DIR", default=[str(ROOT)])
    parser.add_argument("--modules", action="store_true", help="list the modules with many imports, too")
    options = parser.parse_args(arguments)
    try:
        sizes = {name: measure(folder) for name, folder in map(named, options.checkouts)}
    except FileNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(table(sizes) + "\n")
    if options.modules:
        for name, size in sizes.items():
            sys.stdout.write("\n".join(["", f"{name}:", *size.importing_much, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
