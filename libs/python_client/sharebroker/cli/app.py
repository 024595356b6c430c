"""The command line application: its table of commands, which are loaded on use, and its error handling."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sharebroker.cli.login import Context, Login, PasswordFile, TokenFile, User
from sharebroker.cli.options import examples
from sharebroker.cli.output import FAILED, print_failure, print_notice, replace_closed_streams


class ListedCommand(NamedTuple):
    """A command: its object as `module:name`, and the first paragraph of its help.

    The object is a Typer, or a function whose module has EXAMPLES.
    """

    target: str
    summary: str


COMMANDS: Final = {
    "produce": ListedCommand(
        "sharebroker.cli.commands.produce:produce",
        "Publish one record per line, JSON line or CSV row; exit when all are durable.",
    ),
    "consume": ListedCommand(
        "sharebroker.cli.commands.consume:consume",
        "Print the records of a topic, one per line, and acknowledge each.",
    ),
    "work": ListedCommand(
        "sharebroker.cli.commands.work:work",
        "Run CMD for each record, with the payload on its standard input and the position in its "
        "environment.",
    ),
    "verify": ListedCommand(
        "sharebroker.cli.commands.verify:verify",
        "Check a group's stored state against its logs, and report the outcome of every offset.",
    ),
    "trace": ListedCommand(
        "sharebroker.cli.commands.trace:trace",
        "Show a record's history from Jaeger: its publishing, deliveries and acknowledgements.",
    ),
    "top": ListedCommand(
        "sharebroker.cli.commands.top:top",
        "Show groups and topics with their rates, again and again, until Ctrl-C.",
    ),
    "bench": ListedCommand(
        "sharebroker.cli.commands.bench:app", "Measure publishing, consuming and latency."
    ),
    "probe": ListedCommand(
        "sharebroker.cli.commands.probe:listed",
        "Check whether a server is started, ready or live. Exit code 0 for yes, 1 for no, 2 for wrong usage.",
    ),
    "topics": ListedCommand(
        "sharebroker.cli.commands.topics:app", "Create, list, describe, change and delete topics."
    ),
    "records": ListedCommand(
        "sharebroker.cli.commands.records:app", "Show stored records without consuming them."
    ),
    "groups": ListedCommand(
        "sharebroker.cli.commands.groups:app",
        "List, describe, configure and delete share groups; reset their offsets.",
    ),
    "dead-letters": ListedCommand(
        "sharebroker.cli.commands.dead_letters:app",
        "List, summarise, show, redrive and discard dead letters: records that groups failed to process.",
    ),
    "state": ListedCommand(
        "sharebroker.cli.commands.state:app", "Show the persisted state of share-partitions."
    ),
    "context": ListedCommand(
        "sharebroker.cli.commands.context:app", "Set, list, choose and delete contexts: servers with a login."
    ),
    "users": ListedCommand("sharebroker.cli.commands.users:app", "Create, list and delete users."),
    "acls": ListedCommand("sharebroker.cli.commands.acls:app", "List, add and remove ACLs: who may do what."),
    "quotas": ListedCommand("sharebroker.cli.commands.quotas:app", "Set, list and remove quotas of clients."),
    "features": ListedCommand(
        "sharebroker.cli.commands.features:app", "List and set the levels of the cluster's features."
    ),
}
"""The commands of this distribution. The overview is printed without importing their modules."""

MORE_COMMANDS: Final = "sharebroker.commands"
"""Entry point group for commands of other distributions. The package of a command's module has SUMMARIES, the
first paragraph of the help by command.
"""

SERVER_COMMANDS: Final = frozenset({"backup", "doctor", "export", "import", "pipeline", "restore", "serve"})
"""The commands of the distribution `sharebroker-server`."""

_MARKUP: Final = "rich"

DISTRIBUTIONS: Final = ("sharebroker", "sharebroker-server", "sharebroker-spark")
"""The distributions whose version `--version` prints, if they are installed."""


class OnDemand(TyperGroup):
    """Imports the module of a command when the command runs; the overview prints the summaries."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._entries: dict[str, ListedCommand] = {}
        self._add(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands."""
        self._add(more_commands())
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command that has its summary and no options, or None."""
        if cmd_name not in self.commands:
            self._add(more_commands())
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Returns the command to run, with its options. Raises UsageError if there is none."""
        if args and args[0] in SERVER_COMMANDS and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"'{args[0]}' is a command of the server: pip install sharebroker-server")
        name, _, remaining = super().resolve_command(ctx, args)
        return name, None if name is None else load(name, self._entries[name]), remaining

    def _add(self, entries: Mapping[str, ListedCommand]) -> None:
        self._entries |= entries
        for name, entry in entries.items():
            self.commands[name] = TyperCommand(name, help=entry.summary)


def more_commands() -> dict[str, ListedCommand]:
    """Returns the commands of other distributions."""
    found = {}
    for point in sorted(entry_points(group=MORE_COMMANDS)):
        package = import_module(point.module.rpartition(".")[0])
        summaries: Mapping[str, str] = getattr(package, "SUMMARIES", {})
        found[point.name] = ListedCommand(point.value, summaries.get(point.name, ""))
    return found


def load(name: str, entry: ListedCommand) -> Any:
    """Imports a command and returns it with its options."""
    module, _, member = entry.target.partition(":")
    home = import_module(module)
    found = getattr(home, member)
    parent = typer.Typer(add_completion=False, rich_markup_mode=_MARKUP)
    parent.callback()(_common)  # one command without a callback would not be a group
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name, epilog=examples(*home.EXAMPLES))(found)
    group = get_command(parent)
    assert isinstance(group, TyperGroup)
    return group.commands[name]


app = typer.Typer(
    cls=OnDemand,
    no_args_is_help=True,
    rich_markup_mode=_MARKUP,
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
    named: Context = None,
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
    context.obj = Login(user, password_file, token_file, server, named)


def main() -> None:
    """Runs the command line.

    Exits with 1 and one line on stderr after a failure, 2 for wrong usage or set-up. With --json the line is
    a JSON document.
    """
    replace_closed_streams()
    words = sys.argv[1:]
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        sys.exit(app(prog_name="sharebroker", standalone_mode=not as_json))
    except typer.Abort:
        print_notice("Aborted.")
        sys.exit(FAILED)
    except Exception as failure:
        print_failure(failure, as_json)
        sys.exit(getattr(failure, "exit_code", FAILED))
