"""`sharebroker users`: manages users and their passwords."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

import sharebroker
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, examples
from sharebroker.cli.output import columns, print_done, print_rows

app = typer.Typer(no_args_is_help=True, help="Create, list and delete users.")

_COLUMNS: Final = columns("name USER", "mechanisms")

User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


@app.command(
    epilog=examples("sharebroker users add alice", "sharebroker users add alice --password-file alice.txt")
)
def add(
    name: User,
    password_file: Annotated[
        Path | None,
        typer.Option(help="File with the password in its first line; without it the command prompts."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create a user, or change the password of a user."""
    password = _password(password_file)
    with sharebroker.Admin(server) as admin:
        admin.set_password(name, password)
    print_done({"name": name}, as_json, f"User {name} can authenticate with the new password.")


@app.command(name="list", epilog=examples("sharebroker users list", "sharebroker users list --json"))
def list_(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the users."""
    with sharebroker.Admin(server) as admin:
        rows = [
            {"name": user.name, "mechanisms": ", ".join(sorted(user.iterations))}
            for user in admin.list_users()
        ]
    print_rows(rows, _COLUMNS, as_json, "There are no users. Create one: sharebroker users add NAME")


@app.command(epilog=examples("sharebroker users delete alice"))
def delete(name: User, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Delete a user. Connections that are authenticated already remain."""
    with sharebroker.Admin(server) as admin:
        admin.delete_user(name)
    print_done({"name": name}, as_json, f"Deleted user {name}.")


def _password(file: Path | None) -> str:
    """Returns the password of a file, or of a prompt. Raises typer.BadParameter."""
    if file is None:
        prompted: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return prompted
    try:
        from sharebroker_protocol.credentials import read_password

        return read_password(file)
    except ValueError as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--password-file") from None
