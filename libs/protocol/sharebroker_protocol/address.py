"""Where a gateway is: HOST:PORT, or tls://HOST:PORT with what it takes to trust it and to be trusted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import grpc

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError

_ADDRESS: Final = re.compile(r"(\S+:\d{1,5})|([a-z0-9-]+:\S*/\S+)")  # the latter is a URI, as gRPC takes it
_TLS: Final = "tls://"
_TRY: Final = "grpc.min_reconnect_backoff_ms"
_HANDSHAKE: Final = 3_000
"""Milliseconds that a try to connect may take: shaking hands is work, and several ways to and fro."""

_PARAMETERS: Final = ("ca", "cert", "key", "name")


@dataclass(frozen=True)
class Address:
    """A parsed address; HOST:PORT, or `tls://HOST:PORT?ca=FILE&cert=FILE&key=FILE&name=HOST`.

    What stands after `?` may be missing. `ca` are authorities to trust instead of the usual ones, `cert` and
    `key` who we are, `name` whose certificate it has to be, where that is not HOST. `credentials` is None
    without TLS.
    """

    target: str
    credentials: grpc.ChannelCredentials | None = None
    name: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address and its files. Raises KafkaError INVALID_CONFIG."""
        if not text.startswith(_TLS):
            if not _ADDRESS.fullmatch(text):
                raise _invalid(f"must be HOST:PORT or tls://HOST:PORT, not {text!r}")
            return cls(text)
        parts = urlsplit(text)
        said = dict(parse_qsl(parts.query))
        unknown = sorted({*said} - {*_PARAMETERS})
        if not _ADDRESS.fullmatch(parts.netloc) or parts.path not in ("", "/"):
            raise _invalid(f"must be tls://HOST:PORT, with a port and no path, not {text!r}")
        if unknown:
            raise _invalid(f"knows {', '.join(_PARAMETERS)} after the ?, not {', '.join(unknown)}")
        if ("cert" in said) != ("key" in said):
            raise _invalid("needs both cert and key, or neither")
        ca, key, cert = (_content(said.get(each)) for each in ("ca", "key", "cert"))
        return cls(parts.netloc, grpc.ssl_channel_credentials(ca, key, cert), said.get("name"))

    def options(self, options: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """A channel's options, with what this address adds."""
        return over_tls(options, self.name) if self.credentials is not None else [*options]

    def open(self, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """A channel of asyncio's."""
        if self.credentials is None:
            return grpc.aio.insecure_channel(self.target, options=options)
        return grpc.aio.secure_channel(self.target, self.credentials, options=self.options(options))


def over_tls(options: Sequence[tuple[str, Any]], name: str | None) -> list[tuple[str, Any]]:
    """Options for a channel with TLS; `name` is what the other's certificate is for, if not its address."""
    changed = {**dict(options), _TRY: _HANDSHAKE}
    return [*changed.items(), *([("grpc.ssl_target_name_override", name)] if name else [])]


def _content(path: str | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError as failure:
        raise _invalid(f"names {path}, which cannot be read: {failure.strerror}") from failure


def _invalid(text: str) -> KafkaError:
    violation = FieldViolation("address", text)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"The server's address {text}.", violations=[violation])
