"""`sharebroker context`: manages contexts: named servers with their TLS files and logins."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sharebroker.cli.options import AsJson, examples
from sharebroker.cli.output import columns, print_done, print_rows
from sharebroker.cli.profiles import ContextProfile, load_contexts, save_contexts

app = typer.Typer(no_args_is_help=True, help="Set, list, choose and delete contexts: servers with a login.")

_COLUMNS: Final = columns("current", "name CONTEXT", "server", "user", "ca")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]


@app.command(name="list", epilog=examples("sharebroker context list", "sharebroker context list --json"))
def list_(as_json: AsJson = False) -> None:
    """List the contexts."""
    found = load_contexts()
    rows = [
        {"current": name == found.current, "name": name, **asdict(profile)}
        for name, profile in sorted(found.profiles.items())
    ]
    if not as_json:
        rows = [row | {"current": "*" if row["current"] else " "} for row in rows]
    print_rows(
        rows, _COLUMNS, as_json, "There are no contexts. Set one: sharebroker context set NAME --server"
    )


@app.command(
    name="set",
    epilog=examples(
        "sharebroker context set local --server 127.0.0.1:9090",
        "sharebroker context set prod --server tls://broker:9090 --ca ca.pem --user ada --password-file pw",
    ),
)
def set_(
    name: Name,
    server: Annotated[
        str, typer.Option("--server", metavar="HOST:PORT", help="The gateway; tls://HOST:PORT for TLS.")
    ],
    ca: Annotated[
        Path | None, typer.Option("--ca", help="File with the certificate authorities of the server.")
    ] = None,
    cert: Annotated[Path | None, typer.Option("--cert", help="File with the client's certificate.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="File with the key of the certificate.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user.")] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="File with the user's password in its first line.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with an access token, instead of a user.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create or replace a context. The first one becomes the current one.

    The context has the paths of files, not their content.
    """
    if token_file is not None and (user is not None or password_file is not None):
        raise typer.BadParameter("needs no --user and no --password-file.", param_hint="--token-file")
    if (cert is None) != (key is None):
        raise typer.BadParameter("Pass both --cert and --key, or neither.", param_hint="--cert")
    profile = ContextProfile(
        server, _path(ca), _path(cert), _path(key), user, _path(password_file), _path(token_file)
    )
    address = profile.address
    save_contexts(load_contexts().with_profile(name, profile))
    print_done(_document(name, profile), as_json, f"Set context {name}: {address}")


@app.command(epilog=examples("sharebroker context use prod"))
def use(name: Name, as_json: AsJson = False) -> None:
    """Make a context the current one, which commands without --server use."""
    changed = load_contexts().with_current(name)
    save_contexts(changed)
    print_done(_document(name, changed.find(name)), as_json, f"The current context is {name}.")


@app.command(epilog=examples("sharebroker context delete old"))
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a context."""
    save_contexts(load_contexts().without(name))
    print_done({"deleted": name}, as_json, f"Deleted context {name}.")


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _document(name: str, profile: ContextProfile) -> dict[str, Any]:
    return {"name": name, **asdict(profile)}
