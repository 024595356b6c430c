"""Set-up of OpenTelemetry's SDK."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing import setup
from sharebroker_protocol.tracing.settings import invalid_variables, parse

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


@pytest.mark.parametrize(
    "error", [ValueError("bad"), KeyError("bad"), FileNotFoundError("bad"), RuntimeError("bad")]
)
def test_an_exception_of_the_sdk_is_an_invalid_config(error: Exception) -> None:
    with (
        pytest.raises(KafkaError, match=r"OpenTelemetry rejects an OTEL_\* variable: .*bad") as refused,
        invalid_variables(),
    ):
        raise error
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("rule", "value"), [("TIMEOUT", "abc"), ("COMPRESSION", "lzma")])
def test_values_that_the_sdk_rejects_are_an_invalid_config(
    rule: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{rule}", value)
    with pytest.raises(KafkaError, match=rf"OpenTelemetry rejects an OTEL_\* variable: .*{value}") as refused:
        setup.begin(parse(ENDPOINT), {}, ignore)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_missing_package_is_not_an_invalid_config() -> None:
    with pytest.raises(ModuleNotFoundError), invalid_variables():
        raise ModuleNotFoundError
