"""`sharebroker features`: manages the levels of the cluster's features."""

from __future__ import annotations

from typing import Annotated, Final

import typer

import sharebroker
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, examples, settings
from sharebroker.cli.output import columns, print_done, print_rows

app = typer.Typer(no_args_is_help=True, help="List and set the levels of the cluster's features.")

_COLUMNS: Final = columns("feature", "level#", "lowest#", "highest#")

Levels = Annotated[
    list[str], typer.Argument(metavar="FEATURE=LEVEL...", help="Features, such as share.version=1.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the levels, and change nothing.")]


@app.command(name="list", epilog=examples("sharebroker features list", "sharebroker features list --json"))
def list_(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the features with their levels."""
    with sharebroker.Admin(server) as admin:
        found = admin.list_features()
    rows = [
        {"feature": one.name, "level": one.level, "lowest": one.lowest, "highest": one.highest}
        for one in found
    ]
    print_rows(rows, _COLUMNS, as_json, "There are no features.")


@app.command(
    name="set",
    epilog=examples(
        "sharebroker features set share.version=1", "sharebroker features set share.version=0 --dry-run"
    ),
)
def set_(
    levels: Levels, dry_run: DryRun = False, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Set the levels of features, all or none. share.version=0 disables share groups for Kafka clients."""
    wanted = {name: _level(name, text) for name, text in settings(levels, "FEATURE=LEVEL").items()}
    with sharebroker.Admin(server) as admin:
        admin.set_features(wanted, validate_only=dry_run)
    shown = ", ".join(f"{name}={level}" for name, level in wanted.items())
    done = "Valid" if dry_run else "Set"
    print_done({"levels": wanted, "dry_run": dry_run}, as_json, f"{done}: {shown}.")


def _level(name: str, text: str) -> int:
    """Returns a level. Raises typer.BadParameter."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.", param_hint=name) from None
