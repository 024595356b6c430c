"""Addresses of gateways: HOST:PORT, or tls://HOST:PORT with certificates, and a user or an access token."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import grpc

from sharebroker_protocol.credentials import (
    Basic,
    Bearer,
    ProvidedToken,
    TokenError,
    TokenProvider,
    read_password,
    read_token,
)
from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import PASSWORD_VARIABLE

_HOST_AND_PORT: Final = re.compile(r"[^\s/]+:(\d{1,5})", re.ASCII)
_TARGET: Final = re.compile(r"(dns|unix|unix-abstract|vsock|xds):\S*/\S+")
"""The URI of a gRPC target."""

_MAX_PORT: Final = 65_535
_TLS: Final = "tls://"

CONNECT_TIMEOUT: Final = ("grpc.min_reconnect_backoff_ms", 3_000)
"""The channel option for the time of one connection attempt in ms: several round trips, and a busy server.

Despite its name it does not delay the next attempt after one that failed.
"""

_PARAMETERS: Final = ("ca", "cert", "key", "name", "user", "password_file", "token_file")

Login = Callable[[asyncio.AbstractEventLoop | None], grpc.AuthMetadataPlugin]
"""Makes the plugin that identifies a client, with the event loop of an asynchronous channel."""


@dataclass(frozen=True)
class Address:
    """A parsed address; HOST:PORT, or `tls://HOST:PORT?ca=FILE&cert=FILE&key=FILE&name=HOST&user=NAME`.

    The parameters are optional. `ca` replaces the default certificate authorities, `cert` and `key` are the
    client's certificate, `name` is the expected name in the server's certificate if it is not HOST. `user` is
    sent with each call; its password is in the first line of the file `password_file`, or in the variable
    SHAREBROKER_PASSWORD. `token_file` is the file with an access token, and replaces `user`; it is read for
    each call.
    """

    target: str
    """HOST:PORT."""
    credentials: grpc.ChannelCredentials | None = None
    """The certificates for TLS; None without TLS."""
    name: str | None = None
    """The expected name in the server's certificate; None: that of the host."""
    identified: bool = False
    """Whether a user, a token or a certificate identifies the client."""
    login: Login | None = field(default=None, repr=False)
    """The user or the access token that is sent with each call; None for neither."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parses an address and reads its files. Raises KafkaError INVALID_CONFIG."""
        if not text.startswith(_TLS):
            if not _has_port(text) and not _TARGET.fullmatch(text):
                raise _invalid(f"must be HOST:PORT or tls://HOST:PORT, not {text!r}")
            return cls(text)
        parts = urlsplit(text)
        parameters = dict(parse_qsl(parts.query))
        unknown = sorted({*parameters} - {*_PARAMETERS})
        if not _has_port(parts.netloc) or parts.path not in ("", "/"):
            raise _invalid(f"must be tls://HOST:PORT, with a port and no path, not {text!r}")
        if unknown:
            raise _invalid(f"accepts {', '.join(_PARAMETERS)} after the ?, not {', '.join(unknown)}")
        if ("cert" in parameters) != ("key" in parameters):
            raise _invalid("needs both cert and key, or neither")
        ca, key, cert = (_content(parameters.get(each)) for each in ("ca", "key", "cert"))
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        address = cls(parts.netloc, credentials, parameters.get("name"), cert is not None)
        user, password_file = parameters.get("user"), parameters.get("password_file")
        return address.with_files(user, password_file, parameters.get("token_file"))

    def with_files(self, user: str | None, password_file: str | None, token_file: str | None) -> Address:
        """Returns the address with a user or an access token, whose secret is in a file.

        Without a password file the password is in SHAREBROKER_PASSWORD. Without a name and a file the result
        is this address. Raises KafkaError INVALID_CONFIG.
        """
        if token_file is not None:
            if user is not None or password_file is not None:
                raise _invalid("needs a user or a token, not both")
            reading = partial(read_token, Path(token_file))
            try:
                reading()
            except TokenError as error:
                raise _invalid(f"names an unusable file as the token's: {error}") from None
            return self._with(lambda _: Bearer(reading))
        if user is None and password_file is None:
            return self
        return self.with_password(_checked_user(user), _password(password_file))

    def with_password(self, user: str, password: str) -> Address:
        """Returns the address with a user. Raises KafkaError INVALID_CONFIG."""
        if not password:
            raise _invalid(f"names a user; set {PASSWORD_VARIABLE} or password_file")
        plugin = Basic(_checked_user(user), password)
        return self._with(lambda _: plugin)

    def with_token(self, provider: TokenProvider) -> Address:
        """Returns the address with an access token, which `provider` returns.

        It is called for the first call, and before the token expires; it may be a coroutine function if the
        channel is asynchronous. Raises KafkaError INVALID_CONFIG.
        """
        return self._with(lambda loop: Bearer(ProvidedToken(provider, loop)))

    def _with(self, login: Login) -> Address:
        if self.credentials is None:
            raise _invalid("must be tls://HOST:PORT for a user or a token: gRPC sends them over TLS only")
        return replace(self, login=login, identified=True)

    def open(self, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """Opens a grpc.aio channel to the address, in the running event loop."""
        credentials = self._channel_credentials(asyncio.get_running_loop())
        if credentials is None:
            return grpc.aio.insecure_channel(self.target, options=options)
        return grpc.aio.secure_channel(self.target, credentials, options=over_tls(options, self.name))

    def open_blocking(self, options: Sequence[tuple[str, Any]]) -> grpc.Channel:
        """Opens a channel for threads to the address."""
        credentials = self._channel_credentials(None)
        if credentials is None:
            return grpc.insecure_channel(self.target, options=options)
        return grpc.secure_channel(self.target, credentials, options=over_tls(options, self.name))

    def _channel_credentials(self, loop: asyncio.AbstractEventLoop | None) -> grpc.ChannelCredentials | None:
        if self.credentials is None or self.login is None:
            return self.credentials
        call = grpc.metadata_call_credentials(self.login(loop))
        return grpc.composite_channel_credentials(self.credentials, call)


def over_tls(options: Sequence[tuple[str, Any]], name: str | None) -> list[tuple[str, Any]]:
    """Returns options for a TLS channel; `name` is the name in the peer's certificate if not its address."""
    return [*options, *([("grpc.ssl_target_name_override", name)] if name else [])]


def _checked_user(user: str | None) -> str:
    if not user or ":" in user:
        raise _invalid("needs a user without a colon for its password")
    return user


def _password(file: str | None) -> str:
    """Returns the password of the file, or of the variable; "" without either."""
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE, "")
    try:
        return read_password(Path(file))
    except ValueError as error:
        raise _invalid(f"names {file} as the password's file: {error}") from error


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach a listener at the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _content(path: str | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError as failure:
        raise _invalid(f"names {path}, which cannot be read: {failure.strerror}") from failure


def _has_port(text: str) -> bool:
    """Returns whether the text is HOST:PORT."""
    match = _HOST_AND_PORT.fullmatch(text)
    return match is not None and int(match[1]) <= _MAX_PORT


def _invalid(text: str) -> KafkaError:
    violation = FieldViolation("address", text)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"The server's address {text}.", violations=[violation])
