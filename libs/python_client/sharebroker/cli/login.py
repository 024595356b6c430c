"""Who calls: the options `--user`, `--password-file` and `--token-file`, which become part of the address."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import typer

from sharebroker.cli.profiles import ContextProfile, load_contexts
from sharebroker_protocol.model import PASSWORD_VARIABLE

_TLS: Final = "tls"
_COMMAND_LINE: Final = "COMMANDLINE"
_DEFAULT: Final = "DEFAULT"
"""Sources of an option's value, by Click's names."""
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

Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        envvar="SHAREBROKER_CONTEXT",
        metavar="NAME",
        help="The context: a server with its login; see sharebroker context.",
    ),
]


@dataclass(frozen=True, slots=True)
class Login:
    """The options before the command; `add_to` replaces what an address has of them.

    `server` replaces the default and the variable, but not the option `--server` of the command; so does the
    address of `context`.
    """

    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    server: str | None = None
    context: str | None = None

    def address(self, server: str | None, source: str) -> str | None:
        """Returns the address without the login: `server` from `source`, or what has precedence over it.

        The order is --server, --context, SHAREBROKER_SERVER, the current context, the default. None stays
        None unless --server or --context is given. Raises KafkaError for a context that cannot be used.
        """
        if source == _COMMAND_LINE:
            return server
        if self.server is not None:
            return self.server
        if self.context is not None:
            return self._of(load_contexts().find(self.context))
        if source != _DEFAULT or server is None:
            return server
        contexts = load_contexts()
        return server if contexts.current is None else self._of(contexts.find(contexts.current))

    def _of(self, profile: ContextProfile) -> str:
        if profile.user is not None and profile.password_file is None and self.user is None:
            _prompt(profile.user)
        return profile.address

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
    """Returns the value of `--server` with the login. Raises typer.BadParameter, KafkaError."""
    login = context.find_object(Login)
    if login is None or context.resilient_parsing:
        return server
    source = context.get_parameter_source("server")
    server = login.address(server, _DEFAULT if source is None else source.name)
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
