"""Exporters, their resource, and the log of failed exports."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.common.http import _OTLPHTTPClient
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from sharebroker_protocol import clock
from sharebroker_protocol.tracing import exporters
from sharebroker_protocol.tracing.exporters import ExportSession
from tests.support.otlp import collecting_over_http
from tests.testkit.servers import free_port

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
_HTTP_LOG = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


@pytest.fixture(autouse=True)
def kept_log() -> Iterator[logging.Logger]:
    """Restores OpenTelemetry's logger."""
    log = logging.getLogger("opentelemetry")
    before = log.propagate, log.handlers
    yield log
    log.propagate, log.handlers = before


def test_resource_attributes_of_the_environment_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=billing")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    attributes = exporters.resource({"service.name": "sharebroker", "node": "1"}).attributes
    assert attributes == {"service.name": "orders", "node": "1", "team": "billing"}


def test_failed_exports_are_reported_once_a_minute(kept_log: logging.Logger) -> None:
    warnings: list[tuple[str, str]] = []
    exporters.redirect_log(lambda logger, reason: warnings.append((logger, reason)))
    log, now = kept_log.getChild("export"), [1000.0]
    with clock.counted_by(lambda: now[0]):
        for now[0] in (1000.0, 1000.0 + exporters.QUIET_PERIOD - 1, 1000.0 + exporters.QUIET_PERIOD):
            log.warning("failed at %s", now[0])
        log.info("not a warning")
    assert warnings == [
        ("opentelemetry.export", "failed at 1000.0"),
        ("opentelemetry.export", "failed at 1060.0"),
    ]
    assert not kept_log.propagate


def test_the_cause_of_a_retry_is_added_to_the_failure() -> None:
    warnings: list[str] = []
    exporters.redirect_log(lambda _, reason: warnings.append(reason))
    log = logging.getLogger(_HTTP_LOG)
    with clock.counted_by(lambda: 5000.0):
        log.warning("Transient error refused")
        assert warnings == []
        log.error("Failed to export")
    assert warnings == ["Failed to export Transient error refused"]


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
