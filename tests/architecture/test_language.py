"""Plain English: words that the glossary replaced do not return to code, log lines and documents.

Software does not tell, hear or know; it logs, returns, receives, stores, detects and reports.
docs/glossary.md has the term for each concept.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import Function, content, files, name, python, statements, tree

REPLACED = re.compile(
    r"\b(tell|tells|telling|told|whoever|anew|nobody|hear|hears|heard|hearsay|tidings|for ever|of itself|"
    r"what became of|who asks|set aside)\b",
    re.IGNORECASE,
)
FOLDERS = ("services/", "libs/", "protos/", "deploy/", "docs/", "tests/")
DOCUMENTS = {
    ".md",
    ".proto",
    ".yaml",
    ".yml",
    ".toml",
    ".lua",
    ".tpl",
    ".java",
    ".go",
    ".rs",
    ".ts",
    ".c",
    ".sh",
}
# The first two and this file list the replaced words; the others are generated.
EXEMPT = (
    "CONTRIBUTING.md",
    "docs/glossary.md",
    "libs/sharebroker_server/kafka_wire/messages.json",
    "tests/architecture/test_language.py",
    "tests/deploy/golden/",
)


def test_replaced_words_do_not_return() -> None:
    found = [
        f"{name(path)}:{line}: {match.group(0)}"
        for path in files()
        if name(path).startswith(FOLDERS) or "/" not in name(path)
        if not name(path).startswith(EXEMPT)
        for line, text in prose(path)
        for match in REPLACED.finditer(text)
    ]
    assert not found, f"{len(found)} words that docs/glossary.md replaces"


def test_first_paragraph_of_a_docstring_is_whole_sentences() -> None:
    found = [
        f"{name(path)}: {getattr(node, 'name', 'the module')}"
        for path in python(*FOLDERS)
        for node in (tree(path), *statements(path))
        if isinstance(node, ast.Module | ast.ClassDef | Function)
        if (text := ast.get_docstring(node))
        if text.split("\n\n")[0].rstrip()[-1] not in ".:?!…"
    ]
    assert not found


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line number and text of everything in a file that a person reads as English."""
    if path.suffix == ".py":
        if REPLACED.search(words(content(path))):  # tokenizing every file would take seconds
            yield from python_prose(path)
    elif path.suffix in DOCUMENTS or path.name in ("Makefile", "Dockerfile"):
        yield from enumerate(content(path).splitlines(), 1)


def python_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yields comments, strings (docstrings, log events, messages) and names of a Python file.

    A name is split into its words.
    """
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(content(path)).readline):
        if token.type in kinds:
            yield from enumerate(token.string.splitlines(), token.start[0])
        elif token.type == tokenize.NAME:
            yield token.start[0], words(token.string)


def words(text: str) -> str:
    """Returns the text with `snake_case` and `CamelCase` names split into words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.replace("_", " "))
