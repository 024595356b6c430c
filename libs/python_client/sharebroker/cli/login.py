"""Who calls: the options `--user`, `--password-file` and `--token-file`, which become part of the address."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import typer

from sharebroker_protocol.model import PASSWORD_VARIABLE

_TLS: Final = "tls"
_NAMES: Final = frozenset({"user", "password_file", "token_file"})

User = Annotated[
    str | None,
    typer.Option(
        "--user",
        envvar="SHAREBROKER_USER",
        metavar="NAME",
        help=f"The user. Its password is in a file or in {PASSWORD_VARIABLE}, or the command prompts.",
    ),
]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        envvar="SHAREBROKER_PASSWORD_FILE",
        metavar="FILE",
        help="File with the user's password in its first line.",
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        envvar="SHAREBROKER_TOKEN_FILE",
        metavar="FILE",
        help="File with an access token, instead of a user; it is read for each call.",
    ),
]


@dataclass(frozen=True, slots=True)
class Login:
    """The options before the command; `add_to` replaces what an address has of them.

    `server` replaces the default and the variable, but not the option `--server` of the command.
    """

    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    server: str | None = None

    def add_to(self, server: str) -> str:
        """Returns the address with the login. Raises typer.BadParameter."""
        given = {name: value for name in sorted(_NAMES) if (value := getattr(self, name)) is not None}
        if not given:
            return server
        if self.token_file is not None and len(given) > 1:
            raise typer.BadParameter("needs no --user and no --password-file.", param_hint="--token-file")
        parts = urlsplit(server)
        if parts.scheme != _TLS:
            text = f"A user or a token needs tls://HOST:PORT, not {server!r}: gRPC sends them over TLS only."
            raise typer.BadParameter(text, param_hint="--server")
        if self.user is not None and self.password_file is None:
            _prompt(self.user)
        kept = {name: value for name, value in parse_qsl(parts.query) if name not in _NAMES}
        if self.password_file is not None and self.user is None:  # the user is that of the address
            kept |= {name: value for name, value in parse_qsl(parts.query) if name == "user"}
        return parts._replace(query=urlencode(kept | given, quote_via=quote)).geturl()


def add_login(context: typer.Context, server: str | None) -> str | None:
    """Returns the value of `--server` with the login of the command line. Raises typer.BadParameter."""
    login = context.find_object(Login)
    if login is None or context.resilient_parsing:
        return server
    source = context.get_parameter_source("server")
    if login.server is not None and (source is None or source.name != "COMMANDLINE"):
        server = login.server
    return None if server is None else login.add_to(server)


def environment() -> dict[str, str]:
    """Returns the environment for commands that this one starts; it has no password that was typed."""
    return {name: value for name, value in os.environ.items() if name not in _typed}


_typed: Final[set[str]] = set()


def _prompt(user: str) -> None:
    """Prompts for a password on a terminal and stores it for this process, unless the variable has it."""
    if not os.environ.get(PASSWORD_VARIABLE) and sys.stdin.isatty():
        os.environ[PASSWORD_VARIABLE] = typer.prompt(f"Password of {user}", hide_input=True, err=True)
        _typed.add(PASSWORD_VARIABLE)
