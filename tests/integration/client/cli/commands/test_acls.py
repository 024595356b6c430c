"""The command `acls`: what is added is listed, also by resource, and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from sharebroker.cli.commands.acls import app
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.support.client import unique
from tests.testkit.brokers import one_process

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Starts a process with ACLs whose super users are anonymous."""
    options = (f"--set=authorizer.class.name={STANDARD_AUTHORIZER}", "--set=super.users=User:ANONYMOUS")
    with one_process(*options) as cluster:
        yield cluster.address


def run(address: str, *arguments: str) -> str:
    done = RUNNER.invoke(app, [*arguments, "--server", address], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def listed(address: str, *arguments: str) -> list[str]:
    rows = json.loads(run(address, "list", "--json", *arguments))
    fields = ("permission_type", "operation", "resource_type", "resource_name", "pattern_type", "host")
    return [" ".join(row[field] for field in fields) for row in rows]


def test_acls_are_added_listed_and_removed(address: str) -> None:
    user = unique("user")
    run(address, "add", user, "--operation", "read", "--operation", "write", "--topic", "orders")
    run(
        address,
        "add",
        user,
        "--operation",
        "all",
        "--group",
        "work",
        "--prefixed",
        "--deny",
        "--host",
        "10.0.0.7",
    )
    run(address, "add", user, "--operation", "alter", "--cluster")
    assert listed(address, "--principal", user) == [
        "allow read topic orders literal *",
        "allow write topic orders literal *",
        "deny all group work prefixed 10.0.0.7",
        "allow alter cluster kafka-cluster literal *",
    ]
    assert f"User:{user}" in run(address, "list")
    assert listed(address, "--group", "workers") == ["deny all group work prefixed 10.0.0.7"]
    run(address, "remove", user, "--operation", "read", "--topic", "orders")
    assert len(listed(address, "--principal", user)) == 3
    assert len(json.loads(run(address, "remove", user, "--json"))) == 3
    assert listed(address, "--principal", user) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "alice", "--topic", "orders"],
        ["add", "alice", "--operation", "read"],
        ["add", "alice", "--operation", "read", "--topic", "orders", "--group", "g"],
        ["remove", "alice", "--prefixed"],
    ],
)
def test_incomplete_commands_are_rejected(arguments: list[str]) -> None:
    done = RUNNER.invoke(app, [*arguments, "--server", "127.0.0.1:1"])
    assert done.exit_code == 2
