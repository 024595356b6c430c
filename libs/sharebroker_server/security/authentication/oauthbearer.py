"""The messages of SASL OAUTHBEARER (RFC 7628; Kafka: `OAuthBearerClientInitialResponse`). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

LONGEST_BEARER_TOKEN: Final = 16_384
"""Characters of an access token, and bytes of the message that contains it."""

ERROR: Final = b'{"status":"invalid_token"}'
"""The challenge after a rejected token; it does not state the reason. The client answers `DUMMY`."""

DUMMY: Final = b"\x01"

_SEPARATOR: Final = "\x01"
_HEADER: Final = re.compile(r"n,(?:a=((?:[^=,\x00\x80-\U0010ffff]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7E \t\r\n]+)")
_CREDENTIALS: Final = re.compile(r"bearer +([-_.A-Za-z0-9]+)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class InitialResponse:
    """A client's first message: its token, and the user that it asks for. Extensions have no effect."""

    token: str = field(repr=False)
    authorization: str = ""


def parse_initial_response(text: str) -> InitialResponse | None:
    """Returns a client's first message; None if it is malformed."""
    header, *pairs = text.split(_SEPARATOR)
    begin = _HEADER.fullmatch(header)
    if begin is None or len(pairs) < 3 or pairs[-2:] != ["", ""]:
        return None
    found = [_PAIR.fullmatch(pair) for pair in pairs[:-2]]
    values = {pair[1]: pair[2] for pair in found if pair is not None}
    token = parse_bearer(values.get("auth"))
    if len(values) != len(found) or token is None:  # malformed or repeated names, or no token
        return None
    return InitialResponse(token, (begin[1] or "").replace("=2C", ",").replace("=3D", "="))


def parse_bearer(credentials: object) -> str | None:
    """Returns the token of `Bearer TOKEN` (RFC 6750); None if there is none."""
    if not isinstance(credentials, str) or len(credentials) > LONGEST_BEARER_TOKEN:
        return None
    found = _CREDENTIALS.fullmatch(credentials)
    return None if found is None else found[1]
