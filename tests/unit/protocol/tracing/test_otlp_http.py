"""The session of OTLP/HTTP exporters: retries, redirects and error texts, with the library's exporter."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.common.http import _OTLPHTTPClient
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from sharebroker_protocol.tracing.otlp_http import ExportSession
from tests.support.otlp import collecting_over_http
from tests.testkit.servers import free_port


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_OTLPHTTPClient, "_compute_backoff", lambda *_: 0.01)
    log = logging.getLogger("opentelemetry")
    propagate, log.propagate = log.propagate, True
    yield
    log.propagate = propagate


def exporter(url: str, timeout: float = 3600.0) -> OTLPSpanExporter:
    return OTLPSpanExporter(endpoint=url, timeout=timeout, session=ExportSession())


@pytest.mark.parametrize(
    ("statuses", "accepted", "attempts"),
    [([], True, 1), ([503, 429], True, 3), ([400], False, 1), ([302], False, 1), ([401], False, 1)],
)
def test_only_temporary_errors_are_retried(
    statuses: list[int], accepted: bool, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    with collecting_over_http(*statuses) as collector:
        result = exporter(f"{collector.url}/v1/traces?key=hush").export([])
        assert (result is SpanExportResult.SUCCESS) is accepted
        assert [path.partition("?")[0] for path in collector.paths] == ["/v1/traces"] * attempts
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(messages) is not accepted
    assert accepted or str(statuses[0]) in messages[0]
    assert "hush" not in caplog.text


def test_error_text_names_the_cause_without_the_url(caplog: pytest.LogCaptureFixture) -> None:
    result = exporter(f"http://127.0.0.1:{free_port()}/v1/traces?key=hush", timeout=0.1).export([])
    assert result is SpanExportResult.FAILURE
    assert "refused" in caplog.text
    assert "hush" not in caplog.text


def test_shutdown_ends_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_OTLPHTTPClient, "_compute_backoff", lambda *_: 1800.0)
    ended = exporter(f"http://127.0.0.1:{free_port()}/v1/traces")
    ended._client.shutdown()
    assert ended.export([]) is SpanExportResult.FAILURE


def test_response_body_is_read_up_to_a_limit() -> None:
    with collecting_over_http() as collector:
        response = ExportSession().post(f"{collector.url}/v1/traces", data=b"", allow_redirects=False)
    assert response.raw.closed
