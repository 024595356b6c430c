"""Calls that are not made here, each with its reason and the files that may make it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.sources import CLIENT, PROTOCOL, is_core, name, python, tree


@dataclass(frozen=True)
class Ban:
    """A dotted call, why it is banned, and where it is right (path prefixes)."""

    call: str
    reason: str
    allowed: tuple[str, ...] = ()


BANS = (
    Ban("time.sleep", "a wait that ends by time instead of by the event; wait for the condition"),
    Ban(
        "time.time",
        "clocks are injected so that tests can turn them",
        (f"{PROTOCOL}clock.py",),
    ),
    Ban("datetime.now", "the same as time.time", ("libs/protocol/sharebroker_protocol/clock.py",)),
    Ban("asyncio.get_event_loop", "makes a loop where none runs; use get_running_loop"),
    Ban("os._exit", "skips every clean-up"),
    Ban(
        "print",
        "servers log; only commands print",
        (
            f"{CLIENT}cli/",
            "services/sharebroker_server/flights/",
            "services/sharebroker_server/pipeline/",
            "protos/",
        ),
    ),
)


@pytest.mark.parametrize("ban", BANS, ids=lambda ban: ban.call)
def test_banned_call_is_not_made(ban: Ban) -> None:
    found = [
        f"{name(path)}:{line}: {ban.call}: {ban.reason}"
        for path in python("services", "libs", "protos")
        if not name(path).startswith(ban.allowed)
        for called, line in calls(path)
        if called == ban.call or called.endswith(f".{ban.call}")
    ]
    assert not found


def test_rules_hold_no_module_state() -> None:
    """A `global` statement in a core would make its answers depend on more than its arguments."""
    found = [
        f"{name(path)}:{node.lineno}"
        for path in python("services", "libs")
        if is_core(path)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Global)
    ]
    assert not found


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Every called name as it is written, with its line."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            yield ast.unparse(node.func), node.lineno
