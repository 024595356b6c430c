"""Settings of telemetry, read from OpenTelemetry's environment variables. Nothing else configures traces."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from sharebroker_protocol.tracing.env_validation import UNCOMPRESSED, invalid, validate, validate_certificates
from sharebroker_protocol.tracing.sampling import SAMPLERS, Sampling

DISABLED: Final = "OTEL_SDK_DISABLED"
TRACES: Final = "OTEL_TRACES_EXPORTER"
METRICS: Final = "OTEL_METRICS_EXPORTER"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
SAMPLER: Final = "OTEL_TRACES_SAMPLER"
RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"
SERVICE: Final = "OTEL_SERVICE_NAME"

PROTOCOL: Final = "OTEL_EXPORTER_OTLP_PROTOCOL"
TRACES_PROTOCOL: Final = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
METRICS_PROTOCOL: Final = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"

PROTOCOLS: Final = ("grpc", "http/protobuf")
_EXPORTERS: Final = ("otlp", "none")
_DEFAULT_ENDPOINT: Final = "http://127.0.0.1:4317"
_DEFAULT_OVER_HTTP: Final = "http://127.0.0.1:4318"
_PATHS: Final = {TRACES_ENDPOINT: "/v1/traces", METRICS_ENDPOINT: "/v1/metrics"}
_DEFAULT_SAMPLER: Final = "parentbased_always_on"


@dataclass(frozen=True, slots=True)
class Queue:
    """The export queue: maximum spans, maximum spans per request, and seconds between requests."""

    max_size: int = 2048
    max_batch: int = 128
    interval: float = 5.0

    @property
    def rate(self) -> float:
        """Spans per second: at most half of the queue, which costs about one percent of a core."""
        return self.max_size / self.interval / 2

    @property
    def burst(self) -> int:
        """Spans at once: those of one second, at most the queue."""
        return max(1, min(self.max_size, round(self.rate)))


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Endpoints of traces and metrics, or None for a signal that is not exported.

    An endpoint of OTLP/HTTP is a complete URL. The exporters read headers and certificates themselves.
    """

    traces: str | None
    metrics: str | None
    sampling: Sampling
    queue: Queue = field(default_factory=Queue)
    metrics_interval: float = 60.0
    traces_over_http: bool = False
    metrics_over_http: bool = False


OFF: Final = TracingSettings(None, None, Sampling(0.0, parent_based=False))
"""Telemetry disabled."""


def read(environment: MutableMapping[str, str] = os.environ) -> TracingSettings:
    """Reads the variables of this process, and removes from them what the SDK rejects.

    These are empty values, spaces around values, and the compression `none`. Raises KafkaError as `parse`.
    """
    for name in [name for name in environment if name.startswith("OTEL_")]:
        value = environment[name].strip()
        if value and not (name.endswith("_COMPRESSION") and value.lower() == UNCOMPRESSED):
            environment[name] = value
        else:
            del environment[name]
    return parse(environment)


def parse(environment: Mapping[str, str]) -> TracingSettings:
    """Returns the settings; without an endpoint or an exporter's name nothing is exported.

    Raises KafkaError INVALID_CONFIG with the variable, its value and the valid values.
    """
    stripped = {name: value.strip() for name, value in environment.items() if name.startswith("OTEL_")}
    variables = {name: value for name, value in stripped.items() if value}
    disabled = variables.get(DISABLED, "false").lower()
    if disabled not in ("true", "false"):
        raise invalid(DISABLED, variables[DISABLED], "true or false")
    if disabled == "true":
        return OFF
    validate(variables)
    traces_over_http, metrics_over_http = (
        _over_http(variables, name) for name in (TRACES_PROTOCOL, METRICS_PROTOCOL)
    )
    for signal, over_http in (("TRACES", traces_over_http), ("METRICS", metrics_over_http)):
        if over_http:
            validate_certificates(variables, signal)
    endpoints = {name for name in (ENDPOINT, TRACES_ENDPOINT) if name in variables}
    return TracingSettings(
        _endpoint(variables, TRACES, TRACES_ENDPOINT, "otlp" if endpoints else "none", traces_over_http),
        _endpoint(variables, METRICS, METRICS_ENDPOINT, "none", metrics_over_http),
        _sampling(variables),
        _queue(variables),
        _number(variables, "OTEL_METRIC_EXPORT_INTERVAL", 60_000, 100, 86_400_000) / 1000,
        traces_over_http,
        metrics_over_http,
    )


def _over_http(variables: Mapping[str, str], own: str) -> bool:
    for name in (own, PROTOCOL):
        if variables.get(name, "grpc") not in PROTOCOLS:
            raise invalid(name, variables[name], " or ".join(PROTOCOLS))
    return variables.get(own, variables.get(PROTOCOL)) == "http/protobuf"


def _endpoint(
    variables: Mapping[str, str], exporter: str, own: str, default: str, over_http: bool
) -> str | None:
    kind = variables.get(exporter, default)
    if kind not in _EXPORTERS:
        raise invalid(exporter, kind, " or ".join(_EXPORTERS))
    if kind == "none":
        return None
    name = own if own in variables else ENDPOINT
    address = variables.get(name, _DEFAULT_OVER_HTTP if over_http else _DEFAULT_ENDPOINT)
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or "@" in parts.netloc:
        raise invalid(name, address if "@" not in address else "(not shown)", "http://HOST:PORT or https://…")
    return address.rstrip("/") + _PATHS[own] if over_http and name == ENDPOINT else address


def _sampling(variables: Mapping[str, str]) -> Sampling:
    name = variables.get(SAMPLER, _DEFAULT_SAMPLER)
    if name not in SAMPLERS:
        raise invalid(SAMPLER, name, ", ".join(SAMPLERS))
    parent_based, ratio = SAMPLERS[name]
    if ratio is None:
        text = variables.get(RATIO, "1.0")
        try:
            ratio = float(text)
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            raise invalid(RATIO, text, "0 to 1")
    return Sampling(ratio, parent_based)


def _queue(variables: Mapping[str, str]) -> Queue:
    max_size = _number(variables, "OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1, 1_000_000)
    max_batch = _number(variables, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(128, max_size), 1, max_size)
    return Queue(
        max_size, max_batch, _number(variables, "OTEL_BSP_SCHEDULE_DELAY", 5000, 1, 3_600_000) / 1000
    )


def _number(variables: Mapping[str, str], name: str, default: int, minimum: int, maximum: int) -> int:
    text = variables.get(name, str(default))
    if not text.isdecimal() or not minimum <= int(text) <= maximum:
        raise invalid(name, text, f"{minimum} to {maximum}")
    return int(text)
