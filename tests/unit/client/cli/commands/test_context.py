"""Contexts on the command line, and the server that a command connects to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sharebroker.cli.app import app
from sharebroker.cli.commands.context import app as commands
from sharebroker.cli.profiles import ContextProfile, Contexts, load_contexts, save_contexts
from sharebroker_protocol.errors import KafkaError


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAREBROKER_CONTEXTS", str(tmp_path / "contexts.json"))
    for name in ("SERVER", "CONTEXT", "USER", "PASSWORD", "PASSWORD_FILE", "TOKEN_FILE"):
        monkeypatch.delenv(f"SHAREBROKER_{name}", raising=False)


def test_contexts_are_set_listed_chosen_and_deleted(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(commands, ["set", "local", "--server", "127.0.0.1:9090"]).exit_code == 0
    login = ["--user", "ada", "--password-file", str(tmp_path / "pw")]
    made = run(commands, ["set", "prod", "--server", "tls://b:1", *login, "--json"])
    assert json.loads(made.stdout)["password_file"] == str(tmp_path / "pw")
    assert run(commands, ["use", "prod"]).exit_code == 0
    rows = json.loads(run(commands, ["list", "--json"]).stdout)
    assert [(row["name"], row["server"], row["current"]) for row in rows] == [
        ("local", "127.0.0.1:9090", False),
        ("prod", "tls://b:1", True),
    ]
    assert "*" in run(commands, ["list"]).stdout
    assert run(commands, ["delete", "prod"]).exit_code == 0
    assert load_contexts() == Contexts({"local": ContextProfile("127.0.0.1:9090")}, None)


@pytest.mark.parametrize(
    "options",
    [
        ["--server", "tls://b:1", "--token-file", "t", "--user", "u"],
        ["--server", "tls://b:1", "--cert", "c"],
        [],
    ],
)
def test_invalid_contexts_are_not_saved(options: list[str]) -> None:
    assert CliRunner().invoke(commands, ["set", "x", *options]).exit_code == 2
    assert load_contexts() == Contexts()


def test_login_without_tls_is_rejected() -> None:
    ran = CliRunner().invoke(commands, ["set", "x", "--server", "b:1", "--user", "u"])
    assert isinstance(ran.exception, KafkaError)
    assert load_contexts() == Contexts()


@pytest.mark.parametrize(
    ("before", "after", "variables", "port"),
    [
        ([], [], {}, 1),
        ([], [], {"SHAREBROKER_SERVER": "127.0.0.1:3"}, 3),
        (["--context", "other"], [], {"SHAREBROKER_SERVER": "127.0.0.1:3"}, 2),
        ([], [], {"SHAREBROKER_CONTEXT": "other"}, 2),
        (["--context", "other", "--server", "127.0.0.1:4"], [], {}, 4),
        (["--context", "other"], ["--server", "127.0.0.1:5"], {}, 5),
    ],
)
def test_nearest_choice_of_the_server_counts(
    before: list[str], after: list[str], variables: dict[str, str], port: int
) -> None:
    save_contexts(
        Contexts({"now": ContextProfile("127.0.0.1:1"), "other": ContextProfile("127.0.0.1:2")}, "now")
    )
    ran = CliRunner().invoke(app, [*before, "topics", "list", *after], env=variables)
    assert f"The server at 127.0.0.1:{port} cannot be reached" in str(ran.exception)


def test_unknown_context_is_an_error() -> None:
    ran = CliRunner().invoke(app, ["--context", "no", "topics", "list"])
    assert "There is no context 'no'" in str(ran.exception)
