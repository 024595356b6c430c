"""`sharebroker probe`: asks a server how it is, for a container's health check; imports next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

DEFAULT_URL: Final = "http://127.0.0.1:9100"
EXAMPLES: Final = (
    "sharebroker probe ready",
    "sharebroker probe live --url http://127.0.0.1:9200",
)
_WITHIN: Final = 3.0
_PATHS: Final[Mapping[str, str]] = {"started": "/startedz", "ready": "/readyz", "live": "/livez"}
_USAGE: Final = f"""\
Usage: sharebroker probe started|ready|live [--url {DEFAULT_URL}]

  started  it serves
  ready    it owns what it should and reaches Redis: clients may be sent to it
  live     its event loop turns

Asks a server that was started with `serve --metrics HOST:PORT`. Exit code 0 for yes, 1 for no or no answer.
"""


def probe(arguments: Sequence[str]) -> int:
    """The exit code; says why on standard error where it is not 0."""
    if "--help" in arguments:
        sys.stdout.write(_USAGE)
        return 0
    url, rest = DEFAULT_URL, list(arguments)
    if "--url" in rest[:-1]:
        at = rest.index("--url")
        url = rest[at + 1]
        del rest[at : at + 2]
    parts = urlsplit(url)
    if len(rest) != 1 or rest[0] not in _PATHS or parts.scheme != "http" or not parts.hostname:
        sys.stderr.write(_USAGE)
        return 2
    reason = _ask(parts.hostname, parts.port or 80, _PATHS[rest[0]])
    if reason:
        sys.stderr.write(f"sharebroker probe: not {rest[0]}: {reason}\n")
    return 1 if reason else 0


def listed(question: str, url: str = DEFAULT_URL) -> None:
    """Ask a server how it is: started, ready or live? Exit code 0 for yes."""
    sys.exit(probe([question, "--url", url]))


def _ask(host: str, port: int, path: str) -> str:
    connection = HTTPConnection(host, port, timeout=_WITHIN)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException, ValueError) as failure:
        return f"no answer from {host}:{port}: {failure}"
    finally:
        connection.close()
    return "" if answer.status == 200 else said or str(answer.status)
