"""Reads the public keys of a token issuer from a URL: which URLs are allowed, within which limits."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from sharebroker_protocol.address import is_loopback

DEADLINE: Final = 10.0
"""Seconds for a read of the keys."""

LARGEST_KEYS: Final = 1 << 20
"""Bytes of a JWK set."""

SOCKET_TIMEOUT: Final = 5.0
"""Seconds for one wait for the server."""

_CHUNK: Final = 65_536


def check_url(url: str) -> None:
    """Raises ValueError unless keys may be read from the URL: no outsider may be able to replace them."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not contain a user or password")
    if parts.scheme == "file" and not parts.netloc and url.startswith("file:///"):
        return
    host = parts.hostname or ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise ValueError("expected https://…, file:///…, or http:// with a loopback address")


def read_url(url: str, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Returns the content of the URL, at most `LARGEST_KEYS` bytes. Raises OSError, ValueError.

    With `form` it is the response to a POST request.
    Blocks for at most `DEADLINE` seconds and one time-out of a socket. Redirects are not followed.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return _limited(file.read(LARGEST_KEYS + 1))
    opener = urllib.request.build_opener(
        _NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context())
    )
    until = monotonic() + DEADLINE
    content = b""
    request = urllib.request.Request(url, form, dict(headers or {}))
    with opener.open(request, timeout=SOCKET_TIMEOUT) as response:
        while chunk := response.read1(_CHUNK):
            content = _limited(content + chunk)
            if monotonic() > until:
                raise TimeoutError("the response takes too long")
    return content


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to a URL that `check_url` rejects."""

    @override
    def redirect_request(self, *_: Any) -> None:
        return None


def _limited(content: bytes) -> bytes:
    if len(content) > LARGEST_KEYS:
        raise ValueError(f"it has more than {LARGEST_KEYS} bytes")
    return content
