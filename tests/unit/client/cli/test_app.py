"""Every command has help, with examples that parse."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import pytest
from typer.testing import CliRunner

from sharebroker.cli import app as cli
from sharebroker.cli.app import COMMANDS as OWN
from sharebroker.cli.app import SERVER_COMMANDS, ListedCommand, app, load, more_commands
from tests.testkit.tables import each

_IMPORTED = """
from sharebroker.cli import main
try:
    main()
except SystemExit:
    heavy = {"aiokafka", "asyncio", "google.protobuf", "grpc", "sharebroker_server.config"}
    print(*sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""
_EXAMPLE = re.compile(r"^ *(?:\$ )?(?:.*\| )?sharebroker (.+)$")


TOP = {name: load(name, entry) for name, entry in (OWN | more_commands()).items()}


def commands(found: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it."""
    for name, command in found.items():
        if hasattr(command, "commands"):
            yield from commands(command.commands, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(TOP))
FIRST = {path[0]: path for path in reversed(COMMANDS)}.values()
"""The first command of each group."""


@each("name, entry", (OWN | more_commands()).items())
def test_summary_is_the_first_paragraph_of_the_help(name: str, entry: ListedCommand) -> None:
    first = (TOP[name].help or "").partition("\n\n")[0]
    assert entry.summary == " ".join(first.split())


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_overview_imports_no_command(words: list[str]) -> None:
    program = f"import sys; sys.argv[1:] = {words}\n{_IMPORTED}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stderr.split() == []


_HELPED = """
import sys
from sharebroker.cli.app import COMMANDS, load, more_commands
for name, entry in (COMMANDS | more_commands()).items():
    load(name, entry)
heavy = {"aiokafka", "cramjam", "grpc", "structlog", "sharebroker_server.broker.settings"}
print(*sorted(heavy & sys.modules.keys()), len(sys.modules))
"""
MOST_MODULES = 490
"""440 modules are loaded for the help of all commands together; each needs less than 0.3 s of CPU."""


def test_help_of_commands_imports_neither_client_nor_server() -> None:
    found = subprocess.run([sys.executable, "-c", _HELPED], capture_output=True, text=True, check=True)
    *heavy, modules = found.stdout.split()
    assert (heavy, int(modules) <= MOST_MODULES) == ([], True), modules


def test_commands_of_the_server_name_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert more_commands().keys() == SERVER_COMMANDS
    monkeypatch.setattr(cli, "more_commands", dict)
    for name in SERVER_COMMANDS:
        ran = CliRunner().invoke(app, [name], env={"TERMINAL_WIDTH": "200"})
        assert (ran.exit_code, "pip install sharebroker-server" in ran.stderr) == (2, True)


def test_version_prints_installed_distributions() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0
    for distribution in ("sharebroker", "sharebroker-server"):
        assert f"{distribution} {version(distribution)}\n" in shown.stdout


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path in FIRST else pytest.mark.slow, id=" ".join(path))
        for path in COMMANDS
    ],
)
def test_help_has_examples(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], prog_name="sharebroker").stdout
    assert "Examples" in shown
    assert f"sharebroker {' '.join(path)}" in shown


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_examples_parse(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    lines = [match[1] for line in command.epilog.splitlines() if (match := _EXAMPLE.match(line))]
    assert lines
    for line in lines:
        words = shlex.split(line.split(" | ")[0], comments=True)
        assert tuple(words[: len(path)]) == path
        command.make_context(" ".join(path), words[len(path) :])


@each(
    "arguments",
    [
        ["topics", "create"],
        ["topics", "create", "a", "--partitions", "-1"],
        ["topics", "create", "a", "--config", "retention.ms"],
        ["topics", "alter", "a"],
        ["groups", "reset", "g", "--topic", "t", "--to", "soon"],
        ["groups", "config", "g", "--set", "=1"],
        ["state", "show", "g", "t", "first"],
        ["topics", "create", "a", "--partitions", "2147483648"],
        ["topics", "alter", "a", "--partitions", "2147483648"],
        ["groups", "reset", "g", "--topic", "t", "--to", "latest", "--partition", "2147483648"],
        ["state", "show", "g", "t", "2147483648"],
        ["nonsense"],
    ],
)
def test_bad_usage_ends_with_code_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize("words", [["-h"], ["topics", "-h"], ["topics", "list", "-h"]])
def test_short_option_shows_the_help(words: list[str]) -> None:
    shown = CliRunner().invoke(app, words, prog_name="sharebroker")
    assert (shown.exit_code, "Usage: sharebroker" in shown.stdout) == (0, True)


@pytest.mark.parametrize(
    ("words", "port"),
    [
        (["--server", "127.0.0.1:1", "topics", "list"], 1),
        (["topics", "list", "--server", "127.0.0.1:2"], 2),
        (["--server", "127.0.0.1:1", "topics", "list", "--server", "127.0.0.1:2"], 2),
        (["topics", "list"], 3),
    ],
)
def test_server_may_be_named_before_or_after_the_command(words: list[str], port: int) -> None:
    ran = CliRunner().invoke(app, words, env={"SHAREBROKER_SERVER": "127.0.0.1:3"})
    assert f"The server at 127.0.0.1:{port} cannot be reached" in str(ran.exception)


@pytest.mark.slow
def test_shell_completion_lists_commands() -> None:
    words = {"_SHAREBROKER_COMPLETE": "complete_bash", "COMP_WORDS": "sharebroker topi", "COMP_CWORD": "1"}
    main = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
    ran = subprocess.run(
        main, env={**os.environ, **words}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split() == ["topics"]


COMMAND = "from sharebroker.cli import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_redirected_to_dev_null(closed: str) -> None:
    words = [sys.executable, "-c", COMMAND, "topics", "list", "--server", "127.0.0.1:1"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *words]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ("cannot be reached" in ended.stderr) == ("2>&-" not in closed)
