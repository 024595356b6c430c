"""The command line against a running Sharebroker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from sharebroker.cli.app import app


@dataclass(frozen=True)
class Ran:
    """The result of a command; `failure` is the exception it raised."""

    code: int
    out: str
    err: str
    failure: BaseException | None

    @property
    def data(self) -> Any:
        """Returns its output, parsed as JSON."""
        return json.loads(self.out)


Command = Callable[..., Ran]


@pytest.fixture
def sharebroker(server: str) -> Command:
    """Runs a command in this process."""

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        result = CliRunner().invoke(app, arguments, input=stdin, env={"SHAREBROKER_SERVER": server})
        failure = None if isinstance(result.exception, SystemExit) else result.exception
        return Ran(result.exit_code, result.stdout, result.stderr, failure)

    return run


@pytest.fixture
def topic(sharebroker: Command) -> str:
    """Creates a topic for one test, with two partitions."""
    name = f"topic-{uuid4().hex[:8]}"
    assert sharebroker("topics", "create", name, "--partitions", "2").code == 0
    return name


@pytest.fixture
def group() -> str:
    """Returns a group id that no other test uses."""
    return f"group-{uuid4().hex[:8]}"
