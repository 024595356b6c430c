"""Set-up of OpenTelemetry's SDK."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.common.http import _OTLPHTTPClient
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanKind

from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing import setup
from sharebroker_protocol.tracing.sampling import LOW
from sharebroker_protocol.tracing.settings import invalid_variables, parse
from sharebroker_protocol.tracing.setup import ExportSession
from sharebroker_protocol.tracing.tracer import context_of
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


def ignore(logger: str, reason: str) -> None:
    pass


@pytest.mark.parametrize(("more", "exporter"), [({}, GrpcSpanExporter), (HTTP, HttpSpanExporter)])
def test_the_protocol_selects_the_exporter(more: dict[str, str], exporter: type) -> None:
    exporting = setup.begin(parse({**ENDPOINT, **more}), {"service.name": "test"}, ignore)
    exporting.stop()
    assert type(exporting.exporter) is exporter
    assert exporting.provider.resource.attributes["service.name"] == "test"


def test_trace_ids_are_kept_by_samplers_of_at_least_our_ratio() -> None:
    sampler = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.125"}
    settings = parse({**ENDPOINT, **sampler})
    exporting = setup.begin(settings, {}, ignore)
    spans = [exporting.tracer.start("test", None, SpanKind.INTERNAL, {}) for _ in range(50)]
    exporting.provider.shutdown()
    ids = [context_of(span).trace_id for span in spans if span is not None]
    assert len(set(ids)) == 50
    assert all(trace_id & LOW < settings.sampling.bound for trace_id in ids)


def test_resource_attributes_of_the_environment_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=billing")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    attributes = setup.resource({"service.name": "sharebroker", "node": "1"}).attributes
    assert attributes == {"service.name": "orders", "node": "1", "team": "billing"}


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("bad"), FileNotFoundError("bad")])
def test_an_exception_of_the_sdk_is_an_invalid_config(error: Exception) -> None:
    with (
        pytest.raises(KafkaError, match=r"OpenTelemetry rejects an OTEL_\* variable: .*bad") as refused,
        invalid_variables(),
    ):
        raise error
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_failed_exports_are_reported_once_a_minute(kept_log: logging.Logger) -> None:
    warnings: list[tuple[str, str]] = []
    setup.redirect_log(lambda logger, reason: warnings.append((logger, reason)))
    log, now = kept_log.getChild("export"), [1000.0]
    with clock.counted_by(lambda: now[0]):
        for now[0] in (1000.0, 1000.0 + setup.QUIET_PERIOD - 1, 1000.0 + setup.QUIET_PERIOD):
            log.warning("failed at %s", now[0])
        log.info("not a warning")
    assert warnings == [
        ("opentelemetry.export", "failed at 1000.0"),
        ("opentelemetry.export", "failed at 1060.0"),
    ]
    assert not kept_log.propagate


def test_the_cause_of_a_retry_is_added_to_the_failure() -> None:
    warnings: list[str] = []
    setup.redirect_log(lambda _, reason: warnings.append(reason))
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
