"""The credentials in the header `authorization` of a gRPC call. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from sharebroker_server.security.authentication.sasl import LONGEST_TOKEN

_BASIC: Final = "basic "


class BasicCredentials(NamedTuple):
    """A name and a password. The text contains no password."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"BasicCredentials(name={self.name!r})"


def parse_basic(header: object) -> BasicCredentials | None:
    """Returns the credentials of a header (RFC 7617); None if there are none."""
    if not isinstance(header, str) or len(header) > LONGEST_TOKEN or header[:6].lower() != _BASIC:
        return None
    try:
        text = base64.b64decode(header[6:].strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, colon, password = text.partition(":")
    return BasicCredentials(name, password) if name and colon and password else None
