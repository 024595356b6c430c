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

WORDS = (
    "tell", "tells", "telling", "told", "whoever", "anew", "nobody", "hear", "hears", "heard", "hearsay",
    "tidings", "for ever", "of itself", "what became of", "who asks", "set aside",
)  # fmt: skip
REPLACED = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
SUBSTRINGS = {*WORDS, *(word.replace(" ", "") for word in WORDS)}
"""A text without these, as names in `CamelCase` have them, has no replaced word."""
DOCSTRING = re.compile(r'(?:\A|:(?:  #[^\n]*)?\n) *r?"""(.+?)(?:\n\n|""")', re.DOTALL)
"""The first paragraph of a docstring, which follows the start of a module or the colon of a definition."""
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
        if has_replaced_words(content(path))
        for line, text in prose(path)
        for match in REPLACED.finditer(text)
    ]
    assert not found, f"{len(found)} words that docs/glossary.md replaces"


def test_first_paragraph_of_a_docstring_is_whole_sentences() -> None:
    found = [
        f"{name(path)}: {paragraph}"
        for path in python(*FOLDERS)
        for paragraph in DOCSTRING.findall(content(path))
        if paragraph.rstrip()[-1:] not in {*".:?!…"}
    ]
    assert not found


def test_a_pattern_finds_docstrings_as_a_parser_does() -> None:
    """Parsing the tests as well would take seconds."""
    for path in python("libs/sharebroker_server/"):
        parsed = [
            text.split("\n\n")[0].rstrip()[-1]
            for node in (tree(path), *statements(path))
            if isinstance(node, ast.Module | ast.ClassDef | Function)
            if (text := ast.get_docstring(node))
        ]
        found = [paragraph.rstrip()[-1] for paragraph in DOCSTRING.findall(content(path))]
        assert sorted(found) == sorted(parsed), name(path)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line number and text of everything in a file that a person reads as English."""
    if path.suffix == ".py":
        yield from python_prose(path)
    elif path.suffix in DOCUMENTS or path.name in ("Makefile", "Dockerfile"):
        yield from enumerate(content(path).splitlines(), 1)


def has_replaced_words(text: str) -> bool:
    """Returns whether a text may have a replaced word; tokenizing every file would take seconds."""
    lower = text.lower().replace("_", " ").replace("heartbeat", "")
    return any(substring in lower for substring in SUBSTRINGS) and bool(REPLACED.search(words(text)))


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
