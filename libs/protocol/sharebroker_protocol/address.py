"""Addresses of gateways: HOST:PORT, or tls://HOST:PORT with certificates."""

from __future__ import annotations

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
_CONNECT_TIMEOUT: Final = "grpc.min_reconnect_backoff_ms"
_HANDSHAKE: Final = 3_000
"""Milliseconds for a connection attempt: a TLS handshake needs CPU time and several round trips."""

_PARAMETERS: Final = ("ca", "cert", "key", "name")


@dataclass(frozen=True)
class Address:
    """A parsed address; HOST:PORT, or `tls://HOST:PORT?ca=FILE&cert=FILE&key=FILE&name=HOST`.

    The parameters are optional. `ca` replaces the default certificate authorities, `cert` and `key` are the
    client's certificate, `name` is the expected name in the server's certificate if it is not HOST.
    `credentials` is None without TLS.
    """

    target: str
    credentials: grpc.ChannelCredentials | None = None
    name: str | None = None

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
        return cls(parts.netloc, grpc.ssl_channel_credentials(ca, key, cert), parameters.get("name"))

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
    changed = {**dict(options), _CONNECT_TIMEOUT: _HANDSHAKE}
    return [*changed.items(), *([("grpc.ssl_target_name_override", name)] if name else [])]


def _content(path: str | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError as failure:
        raise _invalid(f"names {path}, which cannot be read: {failure.strerror}") from failure


def _invalid(text: str) -> KafkaError:
    violation = FieldViolation("address", text)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"The server's address {text}.", violations=[violation])
