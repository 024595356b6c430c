"""What OpenTelemetry's SDK and exporters read by themselves, checked: their own complaints are tracebacks.

They also log headers that they cannot read, and those hold secrets. Names and forms are those of
OpenTelemetry's specification (Environment Variable Specification), as the SDK for Python reads them.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from sharebroker_protocol.errors import ErrorCode, KafkaError

_INT_MAX: Final = 2**31 - 1
_DAY: Final = 86_400_000
_MOST_SECONDS: Final = 3_600_000
_OTLP: Final = ("OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_METRICS_")
_HEADER: Final = re.compile(r"[0-9A-Za-z_.-]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")
_BINARY: Final = "-bin"
UNCOMPRESSED: Final = "none"
"""A compression that the SDK for Python does not know: it is to find no variable then."""

_NEAR: Final = 0.85
"""How like one another two names are, 1 for equal ones, where one may be meant for the other."""

_CODES: Final = (
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "OUT_OF_RANGE",
)

Check = tuple[Callable[[str], bool], str]
"""Whether a value may be, and what may."""


def _one_of(*values: str) -> Check:
    return lambda text: text.lower() in values, " or ".join(values)


def _whole(most: int) -> Check:
    return lambda text: text.isascii() and text.isdecimal() and int(text) <= most, f"0 to {most}"


def _seconds(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and 0 < number <= _MOST_SECONDS


def _header(text: str) -> bool:
    if not _HEADER.fullmatch(text):
        return False
    name, value = text.split("=", 1)
    return (
        not name.strip().lower().endswith(_BINARY)
        and (told := unquote(value)).isascii()
        and told.isprintable()
    )


def _headers(text: str) -> bool:
    return all(_header(part.strip()) for part in text.split(",") if part.strip())


def _file(text: str) -> bool:
    return os.path.isfile(text) and os.access(text, os.R_OK)


def _codes(text: str) -> bool:
    return all(code.strip().upper() in _CODES for code in text.split(",") if code.strip())


def _attributes(text: str) -> bool:
    return all(part.partition("=")[0].strip() and "=" in part for part in text.split(","))


_HEADERS: Final[Check] = (_headers, "NAME=VALUE, several with commas between, values URL-encoded")
_FILE: Final[Check] = (_file, "a file that can be read")
_SWITCH: Final = _one_of("true", "false")
_OF_OTLP: Final[Mapping[str, Check]] = {
    "HEADERS": _HEADERS,
    "TIMEOUT": (_seconds, f"seconds, more than 0 to {_MOST_SECONDS}"),
    "COMPRESSION": _one_of("gzip", UNCOMPRESSED),
    "INSECURE": _SWITCH,
    "CERTIFICATE": _FILE,
    "CLIENT_CERTIFICATE": _FILE,
    "CLIENT_KEY": _FILE,
}
_LIMITS: Final = (
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
)
_CHECKS: Final[Mapping[str, Check]] = {
    **{of + name: check for of in _OTLP for name, check in _OF_OTLP.items()},
    **dict.fromkeys(_LIMITS, _whole(_INT_MAX)),
    "OTEL_BSP_EXPORT_TIMEOUT": _whole(_DAY),
    "OTEL_METRIC_EXPORT_TIMEOUT": _whole(_DAY),
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": _one_of("cumulative", "delta", "lowmemory"),
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": _one_of(
        "explicit_bucket_histogram", "base2_exponential_bucket_histogram"
    ),
    "OTEL_METRICS_EXEMPLAR_FILTER": _one_of("always_on", "always_off", "trace_based"),
    "OTEL_RESOURCE_ATTRIBUTES": (_attributes, "NAME=VALUE, several with commas between"),
    "OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES": (
        _codes,
        "gRPC's status codes, with commas between",
    ),
}
_KNOWN: Final = frozenset(
    {
        *_CHECKS,
        *(of + name for of in _OTLP for name in ("ENDPOINT", "PROTOCOL")),
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_CONFIG_FILE",
        "OTEL_LOGS_EXPORTER",
        "OTEL_LOG_LEVEL",
        "OTEL_METRICS_EXPORTER",
        "OTEL_METRIC_EXPORT_INTERVAL",
        "OTEL_NODE_IP",
        "OTEL_POD_IP",
        "OTEL_PROPAGATORS",
        "OTEL_SDK_DISABLED",
        "OTEL_SEMCONV_STABILITY_OPT_IN",
        "OTEL_SERVICE_NAME",
        "OTEL_TRACES_EXPORTER",
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
    }
)
_OTHERS: Final = re.compile(
    "OTEL_(BLRP|LOGRECORD|EXPERIMENTAL|INSTRUMENTATION|RESOURCE_ATTRIBUTES|PYTHON|JAVA|JAVAAGENT|JAVASCRIPT"
    "|JS|NODE|DOTNET|GO|PHP|RUBY|COLLECTOR|OPERATOR|EXPORTER_(?!OTLP_)|EXPORTER_OTLP_(LOGS|PROFILES)_).*"
)
"""What other tools of OpenTelemetry read, and set for all programs of a machine or pod."""


def check(told: Mapping[str, str]) -> None:
    """Raise KafkaError INVALID_CONFIG for the first variable that cannot be; headers are not repeated."""
    for name, value in sorted(told.items()):
        may_be, allowed = _CHECKS.get(name, (None, ""))
        if may_be is not None and not may_be(value):
            raise wrong(name, None if may_be is _headers else value, allowed)


def unknown(told: Mapping[str, str]) -> tuple[str, ...]:
    """Names that OpenTelemetry does not have, each with the one that is nearest, if any is near."""
    return tuple(_hinted(name) for name in sorted(told) if name not in _KNOWN and not _OTHERS.fullmatch(name))


def wrong(name: str, value: str | None, allowed: str) -> KafkaError:
    """The refusal of a variable; None for a value that may be a secret."""
    is_ = "cannot be read" if value is None else f"is {value!r}"
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{name} {is_}; it may be {allowed}.")


def _hinted(name: str) -> str:
    near = difflib.get_close_matches(name, sorted(_KNOWN), n=1, cutoff=_NEAR)
    return f"{name} (did you mean {near[0]}?)" if near else name
