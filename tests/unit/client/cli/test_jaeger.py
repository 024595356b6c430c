"""Responses of servers at --jaeger that are not Jaeger, and invalid URLs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from sharebroker.cli.app import app
from sharebroker.cli.jaeger import of_jaeger
from tests.testkit.servers import free_port

TRACES = {
    "/few": b'{"data": [{}]}',
    "/number": b'{"data": 5}',
    "/odd": b'{"data": [{"processes": {}, "spans": [{"spanID": 1}]}]}',
}
"""Invalid traces by path."""


class Responses(BaseHTTPRequestHandler):
    """A response for each path."""

    def do_GET(self) -> None:
        about, _, path = self.path.partition("/api/")
        if about == "/rude":
            self.wfile.write(b"good day\r\n\r\n")
            return
        pages = {"/html": b"<html>", "/list": b"[]", "/text": b'{"data": "a"}'} | TRACES
        status, body = (200, pages[about]) if about in pages else (404, b"no")
        if about in TRACES and path == "services":
            body = b'{"data": ["a"]}'
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server has it
        """Logs nothing."""


@pytest.fixture
def website() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Responses)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run_trace(url: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["trace", "orders", "0", "1", "--jaeger", url])
    return result.exit_code, result.stderr


def test_other_servers_are_rejected(website: str) -> None:
    for path, what in (
        ("/html", "does not respond as Jaeger"),
        ("/list", "does not respond as Jaeger"),
        ("/text", "does not respond as Jaeger"),
        ("/rude", "does not respond as Jaeger"),
        *((place, "does not respond as Jaeger") for place in TRACES),
        ("/none", "returned 404 for /api/services"),
    ):
        code, text = run_trace(website + path)
        assert code == 2
        assert what in text
        assert "--jaeger" in text


def test_refused_connection_is_reported() -> None:
    code, text = run_trace(f"http://127.0.0.1:{free_port()}")
    assert code == 2
    assert "refused" in text


@pytest.mark.parametrize(
    "url",
    [
        "localhost:16686",
        "http://",
        "http://[::1",
        "http://a:port",
        "http://a:99999",
        "http://a/b c",
        "http://me:hush@a",
    ],
)
def test_invalid_url_is_rejected(url: str) -> None:
    code, text = run_trace(url)
    assert code == 2
    assert text.startswith("sharebroker: --jaeger must be http://HOST:PORT, not ")
    assert "hush" not in text


@pytest.mark.parametrize("hours", ["inf", "1e300", "nan", "-1"])
def test_hours_out_of_range_are_rejected(hours: str) -> None:
    result = CliRunner().invoke(app, ["trace", "orders", "0", "1", "--hours", hours])
    assert result.exit_code == 2
    assert "--hours" in result.stderr


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def span(name: str, parent: str, operation: str, at: int, **tags: Any) -> dict[str, Any]:
    references = [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": parent}] if parent else []
    return {
        "traceID": TRACE,
        "spanID": name,
        "operationName": operation,
        "references": references,
        "startTime": at,
        "duration": 1500,
        "tags": [{"key": key.replace("__", "."), "value": value} for key, value in tags.items()],
        "processID": "p1",
    }


DOCUMENT = {
    "data": [
        {
            "traceID": TRACE,
            "spans": [
                span("04", "03", "lock lost orders", 1_004_000, error=True, otel__status_description="late"),
                span("03", "01", "acquire orders", 1_003_000, messaging__consumer__group__name="billing"),
                span("01", "", "create orders", 1_000_000),
                span("05", "01", "acquire orders", 1_005_000, messaging__consumer__group__name="audit"),
                span("02", "gone", "pkg.v1.Leader/Produce", 1_001_000),
            ],
            "processes": {"p1": {"serviceName": "server"}},
        }
    ]
}


def test_spans_are_read_in_their_order() -> None:
    spans = of_jaeger(DOCUMENT)
    assert [span.name.span for span in spans] == ["01", "02", "03", "04", "05"]
    first, *_, lost, _ = spans
    assert (first.parent, first.service, first.begun, first.error) == ("", "server", 1.0, "")
    assert (lost.parent, lost.error, round(lost.ended, 4)) == ("03", "late", 1.0055)
    assert of_jaeger({"data": None}) == []
