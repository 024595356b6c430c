"""What OpenTelemetry's environment variables say, checked. Nothing else configures traces."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from sharebroker_protocol.tracing.env_validation import UNCOMPRESSED, check, unknown, wrong
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
    """Spans that wait to be sent: at most so many, so many at a time, and how often (seconds)."""

    most: int = 2048
    at_once: int = 128
    every: float = 5.0

    @property
    def rate(self) -> float:
        """Spans a second that fill half of it at most, and cost about a hundredth of a core."""
        return self.most / self.every / 2

    @property
    def burst(self) -> int:
        """Spans at once: those of a second, if it takes all of them."""
        return max(1, min(self.most, round(self.rate)))


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """What is sent where; None instead of one: nothing is. Headers and certificates are the exporter's.

    What goes over HTTP, not gRPC, has its whole URL here. `unknown` names variables that nobody reads.
    """

    traces: str | None
    metrics: str | None
    sampling: Sampling
    queue: Queue = field(default_factory=Queue)
    metrics_every: float = 60.0
    unknown: tuple[str, ...] = ()
    traces_over_http: bool = False
    metrics_over_http: bool = False


OFF: Final = TracingSettings(None, None, Sampling(0.0, parent_based=False))
"""Nothing is told to anybody."""


def read(environment: MutableMapping[str, str] = os.environ) -> TracingSettings:
    """What this process's variables say; empty ones go, and spaces around values: the SDK stumbles over both,
    and over a compression of `none`.

    Raises KafkaError as `parse` does.
    """
    for name in [name for name in environment if name.startswith("OTEL_")]:
        value = environment[name].strip()
        if value and not (name.endswith("_COMPRESSION") and value.lower() == UNCOMPRESSED):
            environment[name] = value
        else:
            del environment[name]
    return parse(environment)


def parse(environment: Mapping[str, str]) -> TracingSettings:
    """What the variables say; without an endpoint or an exporter's name nothing is sent.

    Raises KafkaError INVALID_CONFIG that names the variable, its value and what it may be.
    """
    found = {name: value.strip() for name, value in environment.items() if name.startswith("OTEL_")}
    told = {name: value for name, value in found.items() if value}
    disabled = told.get(DISABLED, "false").lower()
    if disabled not in ("true", "false"):
        raise wrong(DISABLED, told[DISABLED], "true or false")
    if disabled == "true":
        return OFF
    check(told)
    traces_over_http, metrics_over_http = (
        _over_http(told, name) for name in (TRACES_PROTOCOL, METRICS_PROTOCOL)
    )
    named = {name for name in (ENDPOINT, TRACES_ENDPOINT) if name in told}
    return TracingSettings(
        _endpoint(told, TRACES, TRACES_ENDPOINT, "otlp" if named else "none", traces_over_http),
        _endpoint(told, METRICS, METRICS_ENDPOINT, "none", metrics_over_http),
        _sampling(told),
        _queue(told),
        _number(told, "OTEL_METRIC_EXPORT_INTERVAL", 60_000, 100, 86_400_000) / 1000,
        unknown(told),
        traces_over_http,
        metrics_over_http,
    )


def _over_http(told: Mapping[str, str], own: str) -> bool:
    for name in (own, PROTOCOL):
        if told.get(name, "grpc") not in PROTOCOLS:
            raise wrong(name, told[name], " or ".join(PROTOCOLS))
    return told.get(own, told.get(PROTOCOL)) == "http/protobuf"


def _endpoint(told: Mapping[str, str], exporter: str, own: str, default: str, over_http: bool) -> str | None:
    kind = told.get(exporter, default)
    if kind not in _EXPORTERS:
        raise wrong(exporter, kind, " or ".join(_EXPORTERS))
    if kind == "none":
        return None
    name = own if own in told else ENDPOINT
    address = told.get(name, _DEFAULT_OVER_HTTP if over_http else _DEFAULT_ENDPOINT)
    try:
        parts = urlsplit(address)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right or "@" in parts.netloc:
        raise wrong(name, address if "@" not in address else "(not shown)", "http://HOST:PORT or https://…")
    return address.rstrip("/") + _PATHS[own] if over_http and name == ENDPOINT else address


def _sampling(told: Mapping[str, str]) -> Sampling:
    name = told.get(SAMPLER, _DEFAULT_SAMPLER)
    if name not in SAMPLERS:
        raise wrong(SAMPLER, name, ", ".join(SAMPLERS))
    parent_based, ratio = SAMPLERS[name]
    if ratio is None:
        text = told.get(RATIO, "1.0")
        try:
            ratio = float(text)
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            raise wrong(RATIO, text, "0 to 1")
    return Sampling(ratio, parent_based)


def _queue(told: Mapping[str, str]) -> Queue:
    most = _number(told, "OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1, 1_000_000)
    at_once = _number(told, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(128, most), 1, most)
    return Queue(most, at_once, _number(told, "OTEL_BSP_SCHEDULE_DELAY", 5000, 1, 3_600_000) / 1000)


def _number(told: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = told.get(name, str(default))
    if not text.isdecimal() or not least <= int(text) <= most:
        raise wrong(name, text, f"{least} to {most}")
    return int(text)
