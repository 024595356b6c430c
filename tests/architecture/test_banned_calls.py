"""Banned calls, each with the reason and the files that may make it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.sources import CLIENT, PROTOCOL, is_core, name, nodes, python


@dataclass(frozen=True)
class Ban:
    """A dotted call, the reason for its ban, and the path prefixes that may make it."""

    call: str
    reason: str
    allowed: tuple[str, ...] = ()


BANS = (
    Ban(
        "time.sleep",
        "a wait that ends by time instead of by the event; wait for the condition",
        ("libs/sharebroker_server/rpc/tls.py",),  # gRPC reports no event
    ),
    Ban(
        "time.time",
        "clocks are injected so that tests can control them",
        (f"{PROTOCOL}clock.py",),
    ),
    Ban("datetime.now", "the same as time.time", ("libs/protocol/sharebroker_protocol/clock.py",)),
    Ban("asyncio.get_event_loop", "creates a loop if none runs; use get_running_loop"),
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


def test_cores_have_no_module_state() -> None:
    """A `global` statement in a core would make its results depend on more than its arguments."""
    found = [
        f"{name(path)}:{node.lineno}"
        for path in python("services", "libs")
        if is_core(path)
        for node in nodes(path)
        if isinstance(node, ast.Global)
    ]
    assert not found


@cache
def calls(path: Path) -> tuple[tuple[str, int], ...]:
    """Returns every called name as it is written, with its line."""
    return tuple(
        (dotted(node.func), node.lineno)
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    )


def dotted(node: ast.AST) -> str:
    """Returns a name with its attributes, such as `time.sleep`; other expressions become empty."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
