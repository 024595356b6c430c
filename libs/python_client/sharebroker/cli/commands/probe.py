"""`sharebroker probe`: requests a server's health, for container health checks.

Imports as little as possible.
"""

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
_TIMEOUT: Final = 3.0
_PATHS: Final[Mapping[str, str]] = {"started": "/startedz", "ready": "/readyz", "live": "/livez"}
_USAGE: Final = f"""\
Usage: sharebroker probe started|ready|live [--url {DEFAULT_URL}]

  started  the server has finished its start
  ready    the server owns its shards and reaches Redis: clients may connect
  live     the event loop of the server runs

Queries a server that was started with `serve --metrics HOST:PORT`.
Exit code 0 for yes, 1 for no or no response, 2 for wrong usage.
"""


def probe(arguments: Sequence[str]) -> int:
    """Returns the exit code; prints the reason to standard error unless it is 0."""
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
    reason = _request(parts.hostname, parts.port or 80, _PATHS[rest[0]])
    if reason:
        sys.stderr.write(f"sharebroker probe: not {rest[0]}: {reason}\n")
    return 1 if reason else 0


def listed(question: str, url: str = DEFAULT_URL) -> None:
    """Check whether a server is started, ready or live. Exit code 0 for yes, 1 for no, 2 for wrong usage."""
    sys.exit(probe([question, "--url", url]))


def _request(host: str, port: int, path: str) -> str:
    connection = HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace").strip()
    except (OSError, HTTPException, ValueError) as failure:
        return f"no response from {host}:{port}: {failure}"
    finally:
        connection.close()
    return "" if response.status == 200 else body or str(response.status)
