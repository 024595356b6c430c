"""docs/operations.md lists every event that the server logs, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.architecture.sources import ROOT, nodes, python

DOCUMENT = ROOT / "docs" / "operations.md"
ROW = re.compile(r"\| `([^`]+)` \| (?:debug|info|warning|error) \|")
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
EVENT_ARGUMENT = {"background": 1, "log": 0}
"""Our methods that log an event: the position of the event (`GatewayContext`, `RateLimitedLog`)."""

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


def test_the_events_of_each_table_are_in_alphabetical_order() -> None:
    for table in tables():
        assert table == sorted(table, key=str.lower)


def documented() -> set[str]:
    """The events of the tables."""
    return {event for table in tables() for event in table}


def tables() -> Iterator[list[str]]:
    """Yields the events of each table, in order."""
    _, _, rest = DOCUMENT.read_text().partition("<!-- log events -->")
    for is_row, rows in groupby(map(ROW.match, rest.splitlines()), bool):
        if is_row:
            yield [row[1] for row in rows if row is not None]


def logged() -> set[str]:
    """The event of every call that logs one, if it is a literal."""
    calls = (node for path in server() for node in nodes(path) if isinstance(node, ast.Call))
    return {event for call in calls for event in events(call)}


def events(call: ast.Call) -> Iterator[str]:
    """Yields the events of a call: a method of `_log`, or one of ours that logs its argument."""
    if not isinstance(call.func, ast.Attribute):
        return
    method, receiver = call.func.attr, call.func.value
    if isinstance(receiver, ast.Name) and receiver.id == "_log" and method in METHODS:
        arguments = call.args[:1]
    else:
        position = EVENT_ARGUMENT.get(method, len(call.args))
        arguments = call.args[position : position + 1]
    for argument in arguments:
        for node in (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def server() -> list[Path]:
    """The modules of the server."""
    return [
        path
        for path in python("services/sharebroker_server/", "libs/sharebroker_server/")
        if not set(OTHERS) & set(path.parts)
    ]
