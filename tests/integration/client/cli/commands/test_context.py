"""Contexts on a running server: commands use the current or the named one."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sharebroker.cli.app import app


@pytest.fixture(autouse=True)
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAREBROKER_CONTEXTS", str(tmp_path / "contexts.json"))
    for name in ("SERVER", "CONTEXT"):
        monkeypatch.delenv(f"SHAREBROKER_{name}", raising=False)


def test_commands_connect_to_the_current_or_the_named_context(server: str) -> None:
    def run(*words: str) -> int:
        return CliRunner().invoke(app, words).exit_code

    assert run("context", "set", "closed", "--server", "127.0.0.1:1") == 0
    assert run("context", "set", "open", "--server", server) == 0
    assert run("topics", "list") == 1
    assert run("--context", "open", "topics", "list") == 0
    assert run("topics", "list", "--server", server) == 0
    assert run("context", "use", "open") == 0
    assert run("topics", "list") == 0
    assert run("--context", "closed", "topics", "list") == 1
