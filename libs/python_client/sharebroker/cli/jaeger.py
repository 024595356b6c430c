"""Asks Jaeger's query API for traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import urlopen

from sharebroker.tracing.finished_span import FinishedSpan, SpanName, of_jaeger
from sharebroker_protocol.errors import ErrorCode, KafkaError

_WITHIN: Final = 10.0
_MOST: Final = 20
_ANOTHER: Final = "does not answer as Jaeger's query API does"


class Jaeger:
    """At a URL. Every call raises KafkaError INVALID_CONFIG where nothing answers, or something else does."""

    def __init__(self, url: str) -> None:
        if not _is_address(url):
            told = repr(url) if "@" not in url else "one with a login"
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--jaeger takes http://HOST:PORT, not {told}.")
        self._url = url.rstrip("/")

    def find(self, attributes: Mapping[str, str], since: float, until: float) -> list[list[FinishedSpan]]:
        """Traces with a span that has all the attributes, newest first; times in seconds."""
        asked = {
            "tags": json.dumps(dict(attributes)),
            "start": str(int(since * 1e6)),
            "end": str(int(until * 1e6)),
            "limit": str(_MOST),
        }
        found: dict[str, list[FinishedSpan]] = {}
        for service in self._services():
            for span in self._spans(f"/api/traces?{urlencode({'service': service, **asked})}"):
                found.setdefault(span.name.trace, []).append(span)
            if found:  # what Jaeger gives are whole traces
                break
        return sorted(found.values(), key=lambda spans: spans[0].begun, reverse=True)

    def spans(self, named: Sequence[SpanName]) -> list[FinishedSpan]:
        """Single spans of other traces, as far as Jaeger has them; of so many traces at most."""
        found = []
        for trace in list(dict.fromkeys(name.trace for name in named))[:_MOST]:
            spans = self._spans(f"/api/traces/{quote(trace)}", missing={})
            found += [span for span in spans if span.name in named]
        return found

    def _services(self) -> list[str]:
        services = self._get("/api/services").get("data") or []
        if not isinstance(services, list) or not all(isinstance(name, str) for name in services):
            raise self._wrong(_ANOTHER)
        return services

    def _spans(self, path: str, missing: dict[str, Any] | None = None) -> list[FinishedSpan]:
        try:
            return of_jaeger(self._get(path, missing))
        except (AttributeError, LookupError, TypeError, ValueError) as failure:
            raise self._wrong(_ANOTHER) from failure

    def _get(self, path: str, missing: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            with urlopen(self._url + path, timeout=_WITHIN) as answer:
                document = json.load(answer)
        except HTTPError as refusal:
            with refusal:
                if missing is not None and refusal.code == 404:
                    return missing
                raise self._wrong(f"answers {refusal.code} to {path.partition('?')[0]}") from refusal
        except OSError as failure:
            raise self._wrong(f"does not answer ({getattr(failure, 'reason', failure)})") from failure
        except (HTTPException, ValueError) as failure:
            raise self._wrong(_ANOTHER) from failure
        if not isinstance(document, dict):
            raise self._wrong(_ANOTHER)
        return document

    def _wrong(self, what: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{self._url} {what}. Name Jaeger's query port (16686 as a rule) with --jaeger.",
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(named) and "@" not in parts.netloc and url.isascii() and url.isprintable() and " " not in url
