"""The command line application, and its error handling."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Annotated, Final

import typer

from sharebroker.cli import (
    acls,
    consume,
    groups,
    probe,
    produce,
    quotas,
    state,
    topics,
    trace,
    users,
    verify,
    work,
)
from sharebroker.cli.login import Login, PasswordFile, TokenFile, User
from sharebroker.cli.options import examples
from sharebroker.cli.output import FAILED, print_failure, print_notice, replace_closed_streams

MORE_COMMANDS: Final = "sharebroker.commands"
"""Entry point group for commands of other distributions: a Typer, or a function with an optional `epilog`."""

DISTRIBUTIONS: Final = ("sharebroker", "sharebroker-server", "sharebroker-spark")
"""The distributions whose version `--version` prints, if they are installed."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Share groups over gRPC: consumers share the records of a partition and acknowledge each one.",
)


def _print_versions(requested: bool) -> None:
    if not requested:
        return
    for distribution in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            typer.echo(f"{distribution} {version(distribution)}")
    raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="HOST:PORT", help="The --server of every command without one."),
    ] = None,
    user: User = None,
    password_file: PasswordFile = None,
    token_file: TokenFile = None,
    versions: Annotated[  # noqa: ARG001 - its callback has printed them
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_versions,
            help="Print the installed versions and exit.",
        ),
    ] = False,
) -> None:
    context.obj = Login(user, password_file, token_file, server)


app.command("produce", epilog=examples(*produce.EXAMPLES))(produce.produce)
app.command("consume", epilog=examples(*consume.EXAMPLES))(consume.consume)
app.command("work", epilog=examples(*work.EXAMPLES))(work.work)
app.command("verify", epilog=examples(*verify.EXAMPLES))(verify.verify)
app.command("trace", epilog=examples(*trace.EXAMPLES))(trace.trace)
app.command("probe", epilog=examples(*probe.EXAMPLES))(probe.listed)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(state.app, name="state")
app.add_typer(users.app, name="users")
app.add_typer(acls.app, name="acls")
app.add_typer(quotas.app, name="quotas")


def main() -> None:
    """Runs the command line.

    Exits with 1 and one line on stderr after a failure, 2 for wrong usage or set-up. With --json the line is
    a JSON document.
    """
    replace_closed_streams()
    words = sys.argv[1:]
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        if _command(words) not in {"--version"} | _own_commands():  # other commands import the server
            _add_other_commands()
        sys.exit(app(prog_name="sharebroker", standalone_mode=not as_json))
    except typer.Abort:
        print_notice("Aborted.")
        sys.exit(FAILED)
    except Exception as failure:
        print_failure(failure, as_json)
        sys.exit(getattr(failure, "exit_code", FAILED))


def _command(words: list[str]) -> str | None:
    """Returns the first word that is no option and no value of one."""
    remaining = iter(words)
    for word in remaining:
        if word == "--version" or not word.startswith("-"):
            return word
        if "=" not in word:
            next(remaining, None)
    return None


def _own_commands() -> set[str | None]:
    commands = {command.name for command in app.registered_commands}
    return commands | {group.name for group in app.registered_groups}


def _add_other_commands() -> None:
    for command in entry_points(group=MORE_COMMANDS):
        found = command.load()
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=command.name)
        else:
            app.command(command.name, epilog=getattr(found, "epilog", None))(found)
