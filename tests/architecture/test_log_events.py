"""docs/operations.md lists every event that the server logs, and no others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.sources import ROOT, nodes, python

DOCUMENT = ROOT / "docs" / "operations.md"
METHODS = {"info", "warning", "error", "exception", "critical"}
# Programs that print for a person, and code of tests.
OTHERS = ("flights", "pipeline")


def test_every_logged_event_is_documented() -> None:
    assert logged() - documented() == set()


def test_every_documented_event_is_in_the_code() -> None:
    texts = {
        node.value
        for path in server()
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert documented() - texts == set()


def documented() -> set[str]:
    """The events of the tables."""
    _, _, rest = DOCUMENT.read_text().partition("<!-- log events -->")
    return set(re.findall(r"^\| `([^`]+)` \| (?:debug|info|warning|error) \|", rest, re.MULTILINE))


def logged() -> set[str]:
    """The first argument of every call of a logger, if it is a literal."""
    return {
        str(node.args[0].value)
        for path in server()
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in METHODS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "_log"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def server() -> list[Path]:
    """The modules of the server."""
    return [
        path
        for path in python("services/sharebroker_server/", "libs/sharebroker_server/")
        if not set(OTHERS) & set(path.parts)
    ]
