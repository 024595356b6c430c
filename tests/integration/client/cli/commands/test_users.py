"""The command `users`: passwords come from a prompt or a file, never from an argument."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sharebroker import Admin
from sharebroker.cli.commands.users import app
from sharebroker_protocol.errors import KafkaError
from tests.support.client import unique

RUNNER = CliRunner()


def run(server: str, *arguments: str, stdin: str = "") -> str:
    done = RUNNER.invoke(app, [*arguments, "--server", server], input=stdin, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def user(server: str) -> str:
    return unique("user")


def names(server: str) -> dict[str, str]:
    return {row["name"]: row["mechanisms"] for row in json.loads(run(server, "list", "--json"))}


def test_a_user_is_added_listed_and_deleted(server: str, user: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a-file-secret\n")
    assert "a-file-secret" not in run(server, "add", user, "--password-file", str(file))
    assert names(server)[user] == "SCRAM-SHA-256, SCRAM-SHA-512"
    run(server, "delete", user)
    assert user not in names(server)


def test_the_password_is_prompted_for_twice(server: str, user: str) -> None:
    output = run(server, "add", user, stdin="typed-secret\ntyped-secret\n")
    assert "typed-secret" not in output
    assert user in names(server)


def test_a_file_without_a_password_is_rejected(server: str, user: str, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text("\n")
    done = RUNNER.invoke(app, ["add", user, "--password-file", str(file), "--server", server])
    assert done.exit_code == 2
    assert user not in names(server)


def test_an_unknown_user_cannot_be_deleted(server: str, user: str) -> None:
    with Admin(server) as admin, pytest.raises(KafkaError, match="does not exist"):
        admin.delete_user(user)
