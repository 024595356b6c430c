"""Addresses of gateways: HOST:PORT, or tls://HOST:PORT with certificates and a user."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import grpc

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError

_ADDRESS: Final = re.compile(r"(\S+:\d{1,5})|([a-z0-9-]+:\S*/\S+)")  # the latter is a gRPC target URI
_TLS: Final = "tls://"

CONNECT_TIMEOUT: Final = ("grpc.min_reconnect_backoff_ms", 3_000)
"""The channel option for the time of one connection attempt in ms: several round trips, and a busy server.

Despite its name it does not delay the next attempt after one that failed.
"""

_PARAMETERS: Final = ("ca", "cert", "key", "name", "user", "password_file")

PASSWORD_VARIABLE: Final = "SHAREBROKER_PASSWORD"
"""The environment variable with the password of an address that names a user and no file."""

_LARGEST_PASSWORD: Final = 1_024


@dataclass(frozen=True)
class Address:
    """A parsed address; HOST:PORT, or `tls://HOST:PORT?ca=FILE&cert=FILE&key=FILE&name=HOST&user=NAME`.

    The parameters are optional. `ca` replaces the default certificate authorities, `cert` and `key` are the
    client's certificate, `name` is the expected name in the server's certificate if it is not HOST. `user` is
    sent with each call; its password is in the first line of the file `password_file`, or in the variable
    SHAREBROKER_PASSWORD. `credentials` is None without TLS. `identified` states whether a user or a
    certificate identifies the client.
    """

    target: str
    credentials: grpc.ChannelCredentials | None = None
    name: str | None = None
    identified: bool = False

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parses an address and reads its files. Raises KafkaError INVALID_CONFIG."""
        if not text.startswith(_TLS):
            if not _ADDRESS.fullmatch(text):
                raise _invalid(f"must be HOST:PORT or tls://HOST:PORT, not {text!r}")
            return cls(text)
        parts = urlsplit(text)
        parameters = dict(parse_qsl(parts.query))
        unknown = sorted({*parameters} - {*_PARAMETERS})
        if not _ADDRESS.fullmatch(parts.netloc) or parts.path not in ("", "/"):
            raise _invalid(f"must be tls://HOST:PORT, with a port and no path, not {text!r}")
        if unknown:
            raise _invalid(f"accepts {', '.join(_PARAMETERS)} after the ?, not {', '.join(unknown)}")
        if ("cert" in parameters) != ("key" in parameters):
            raise _invalid("needs both cert and key, or neither")
        ca, key, cert = (_content(parameters.get(each)) for each in ("ca", "key", "cert"))
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        basic = _basic(parameters.get("user"), parameters.get("password_file"))
        if basic is not None:
            credentials = grpc.composite_channel_credentials(credentials, basic)
        identified = basic is not None or cert is not None
        return cls(parts.netloc, credentials, parameters.get("name"), identified)

    def options(self, options: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Returns `options` with the channel options that this address needs."""
        return over_tls(options, self.name) if self.credentials is not None else [*options]

    def open(self, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """Opens a grpc.aio channel to the address."""
        if self.credentials is None:
            return grpc.aio.insecure_channel(self.target, options=options)
        return grpc.aio.secure_channel(self.target, self.credentials, options=self.options(options))


def over_tls(options: Sequence[tuple[str, Any]], name: str | None) -> list[tuple[str, Any]]:
    """Returns options for a TLS channel; `name` is the name in the peer's certificate if not its address."""
    return [*options, *([("grpc.ssl_target_name_override", name)] if name else [])]


class _Basic(grpc.AuthMetadataPlugin):
    """Adds `authorization: Basic` to each call; gRPC permits it only over TLS."""

    def __init__(self, header: str) -> None:
        self._metadata = (("authorization", header),)

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        callback(self._metadata, None)


def _basic(user: str | None, file: str | None) -> grpc.CallCredentials | None:
    if user is None and file is None:
        return None
    if not user or ":" in user:
        raise _invalid("needs a user without a colon for its password")
    try:
        password = os.environ.get(PASSWORD_VARIABLE, "") if file is None else read_password(Path(file))
    except ValueError as error:
        raise _invalid(f"names {file} as the password's file: {error}") from error
    if not password:
        raise _invalid(f"names a user; set {PASSWORD_VARIABLE} or password_file")
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return grpc.metadata_call_credentials(_Basic(f"Basic {token}"))


def read_password(path: Path) -> str:
    """Returns the first line of a file. Raises ValueError with the reason, without the password."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_PASSWORD + 1)
        password = content.partition(b"\n")[0].rstrip(b"\r").decode()
    except OSError as failure:
        raise ValueError(failure.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not password or len(content) > _LARGEST_PASSWORD:
        raise ValueError(f"its first line must be a password, and the file at most {_LARGEST_PASSWORD} bytes")
    return password


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


def _invalid(text: str) -> KafkaError:
    violation = FieldViolation("address", text)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"The server's address {text}.", violations=[violation])
