"""Settings of telemetry, read from OpenTelemetry's environment variables. Nothing else configures traces.

The variables that this package interprets are parsed here. Of the others, only those are validated with which
the SDK would reveal a secret or end the process:

- headers contain secrets, and the SDK and gRPC log headers that they reject;
- without a readable file of certificates, the SDK trusts those of the system;
- gRPC aborts the process if either the client's certificate or its key is missing, and OpenSSL requests the
  password of a key at the terminal.

Other invalid values fail when the SDK is set up (see `setup`), or later as a failed export in the log.
Names and formats are those of OpenTelemetry's Environment Variable Specification.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.sampling import SAMPLERS, Sampling

_PREFIXES: Final = tuple(f"OTEL_EXPORTER_OTLP_{signal}" for signal in ("", "TRACES_", "METRICS_"))
_HEADER: Final = re.compile(r"[0-9A-Za-z_.-]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")
_BINARY: Final = "-bin"
UNCOMPRESSED: Final = "none"
"""A compression that the SDK's gRPC exporter rejects; the variable is removed instead."""


@contextmanager
def invalid_variables() -> Iterator[None]:
    """Converts exceptions that invalid OTEL_* variables cause in the SDK to INVALID_CONFIG.

    Wrap the import of the SDK as well: it reads some variables when it is imported.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"OpenTelemetry rejects an OTEL_* variable: {error}."
        ) from error


def _is_header(text: str) -> bool:
    if not _HEADER.fullmatch(text):
        return False
    name, value = text.split("=", 1)
    decoded = unquote(value)
    return not name.strip().lower().endswith(_BINARY) and decoded.isascii() and decoded.isprintable()


def _are_headers(text: str) -> bool:
    return all(_is_header(part.strip()) for part in text.split(",") if part.strip())


def _validate(variables: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG for the first invalid variable; the error contains no header."""
    for prefix in _PREFIXES:
        if not _are_headers(variables.get(f"{prefix}HEADERS", "")):
            allowed = "NAME=VALUE, several separated by commas, values URL-encoded"
            raise invalid(f"{prefix}HEADERS", None, allowed)
        trusted = variables.get(f"{prefix}CERTIFICATE")
        if trusted and not (os.path.isfile(trusted) and os.access(trusted, os.R_OK)):
            raise invalid(f"{prefix}CERTIFICATE", trusted, "a readable file")
        certificate, key = (variables.get(f"{prefix}CLIENT_{part}", "") for part in ("CERTIFICATE", "KEY"))
        if (certificate or key) and not _are_pair(certificate, key):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{prefix}CLIENT_CERTIFICATE and {prefix}CLIENT_KEY must name a certificate and "
                "its key, both in PEM and without a password.",
            )


def _are_pair(certificate: str, key: str) -> bool:
    try:
        # Without a password argument, OpenSSL would prompt for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except OSError:  # SSLError is an OSError
        return False
    return True


def invalid(name: str, value: str | None, allowed: str) -> KafkaError:
    """Returns the error for an invalid variable; `value` is None if it may be a secret."""
    is_ = "is invalid" if value is None else f"is {value!r}"
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{name} {is_}; it may be {allowed}.")


DISABLED: Final = "OTEL_SDK_DISABLED"
TRACES: Final = "OTEL_TRACES_EXPORTER"
METRICS: Final = "OTEL_METRICS_EXPORTER"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
SAMPLER: Final = "OTEL_TRACES_SAMPLER"
RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"

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
    if variables.get(DISABLED, "").lower() == "true":
        return OFF
    _validate(variables)
    traces_over_http, metrics_over_http = (
        _over_http(variables, name) for name in (TRACES_PROTOCOL, METRICS_PROTOCOL)
    )
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
    if not is_http_url(address):
        raise invalid(name, address if "@" not in address else "(not shown)", "http://HOST:PORT or https://…")
    return address.rstrip("/") + _PATHS[own] if over_http and name == ENDPOINT else address


def is_http_url(text: str) -> bool:
    """Whether a text is a URL of HTTP with a host, a valid port if any, and no credentials."""
    try:
        parts = urlsplit(text)
        has_server = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return has_server and parts.scheme in ("http", "https") and "@" not in parts.netloc


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
