"""The options --user, --password-file and --token-file, and the prompt for a password."""

from __future__ import annotations

import os
import sys

import pytest
import typer
from typer.testing import CliRunner

from sharebroker.cli import login
from sharebroker.cli.app import app
from sharebroker.cli.login import Login

TLS = "tls://broker:9090"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PASSWORD", "USER", "PASSWORD_FILE", "TOKEN_FILE"):
        monkeypatch.delenv(f"SHAREBROKER_{name}", raising=False)
    monkeypatch.setattr(login, "_typed", set())


@pytest.mark.parametrize(
    ("given", "server", "expected"),
    [
        (Login(), "broker:9090", "broker:9090"),
        (Login(), f"{TLS}?user=a", f"{TLS}?user=a"),
        (Login("a", "b c"), TLS, f"{TLS}?password_file=b%20c&user=a"),
        (Login("a", "f"), f"{TLS}?ca=x&user=b&password_file=g", f"{TLS}?ca=x&password_file=f&user=a"),
        (Login(None, "f"), f"{TLS}?user=b", f"{TLS}?user=b&password_file=f"),
        (Login(token_file="t"), f"{TLS}?user=b&name=n", f"{TLS}?name=n&token_file=t"),
        (Login("a"), f"{TLS}?token_file=t", f"{TLS}?user=a"),
    ],
)
def test_login_becomes_part_of_the_address(given: Login, server: str, expected: str) -> None:
    assert given.add_to(server) == expected


@pytest.mark.parametrize(
    ("given", "server", "reason"),
    [
        (Login("a", "f"), "broker:9090", "over TLS only"),
        (Login(token_file="t"), "dns:///broker:9090", "over TLS only"),
        (Login("a", token_file="t"), TLS, "needs no --user"),
    ],
)
def test_impossible_logins_are_rejected(given: Login, server: str, reason: str) -> None:
    with pytest.raises(typer.BadParameter, match=reason):
        given.add_to(server)


def test_password_is_typed_on_a_terminal_and_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAREBROKER_PASSWORD", "")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []

    def prompt(text: str, **_: object) -> str:
        asked.append(text)
        return "hush"

    monkeypatch.setattr(typer, "prompt", prompt)
    for _ in range(2):
        assert Login("alice").add_to(TLS) == f"{TLS}?user=alice"
    assert asked == ["Password of alice"]
    assert os.environ["SHAREBROKER_PASSWORD"] == "hush"
    assert "SHAREBROKER_PASSWORD" not in login.environment()


def test_password_of_the_variable_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAREBROKER_PASSWORD", "hush")
    Login("alice").add_to(TLS)
    assert login.environment()["SHAREBROKER_PASSWORD"] == "hush"


def test_without_a_terminal_a_missing_password_is_an_error() -> None:
    ran = CliRunner().invoke(app, ["--user", "alice", "topics", "list", "--server", TLS])
    assert ran.exit_code == 1
    assert "set SHAREBROKER_PASSWORD" in str(ran.exception)


@pytest.mark.parametrize("variables", [False, True])
def test_options_precede_the_command_or_are_variables(variables: bool) -> None:
    given = {"SHAREBROKER_TOKEN_FILE": "/absent"} if variables else {}
    options = [] if variables else ["--token-file", "/absent"]
    ran = CliRunner().invoke(app, [*options, "topics", "list", "--server", TLS], env=given)
    assert "/absent: No such file" in str(ran.exception)
