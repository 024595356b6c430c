"""Validates the OTEL_* variables whose errors would reveal secrets or prevent the start.

The SDK logs headers that it cannot parse, and headers contain secrets. A key file with a password makes it
wait at the terminal. Other invalid values fail when the SDK is set up (see `setup`), or are ignored by the
SDK. Names and formats are those of OpenTelemetry's Environment Variable Specification.
"""

from __future__ import annotations

import math
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from sharebroker_protocol.errors import ErrorCode, KafkaError

_MAX_SECONDS: Final = 3_600_000
_SIGNALS: Final = ("", "TRACES_", "METRICS_")
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
    except (ValueError, KeyError, OSError) as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"OpenTelemetry rejects an OTEL_* variable: {error}."
        ) from error


def _is_timeout(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and 0 < number <= _MAX_SECONDS


def _is_header(text: str) -> bool:
    if not _HEADER.fullmatch(text):
        return False
    name, value = text.split("=", 1)
    decoded = unquote(value)
    return not name.strip().lower().endswith(_BINARY) and decoded.isascii() and decoded.isprintable()


def _are_headers(text: str) -> bool:
    return all(_is_header(part.strip()) for part in text.split(",") if part.strip())


def _is_file(text: str) -> bool:
    return os.path.isfile(text) and os.access(text, os.R_OK)


_RULES: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "HEADERS": (_are_headers, "NAME=VALUE, several separated by commas, values URL-encoded"),
    "TIMEOUT": (_is_timeout, f"seconds, more than 0 to {_MAX_SECONDS}"),
    "COMPRESSION": (lambda text: text.lower() in ("gzip", UNCOMPRESSED), f"gzip or {UNCOMPRESSED}"),
    "INSECURE": (lambda text: text.lower() in ("true", "false"), "true or false"),
    "CERTIFICATE": (_is_file, "a readable file"),
    "CLIENT_CERTIFICATE": (_is_file, "a readable file"),
    "CLIENT_KEY": (_is_file, "a readable file"),
}


def validate(variables: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG for the first invalid variable; the error contains no header."""
    for signal in _SIGNALS:
        for rule, (is_valid, allowed) in _RULES.items():
            name = f"OTEL_EXPORTER_OTLP_{signal}{rule}"
            value = variables.get(name)
            if value is not None and not is_valid(value):
                raise invalid(name, None if rule == "HEADERS" else value, allowed)


def validate_certificates(variables: Mapping[str, str], signal: str) -> None:
    """Loads the certificate files of a signal ("TRACES" or "METRICS"). Raises KafkaError INVALID_CONFIG."""

    def read(rule: str) -> str | None:
        own = variables.get(f"OTEL_EXPORTER_OTLP_{signal}_{rule}")
        return own or variables.get(f"OTEL_EXPORTER_OTLP_{rule}")

    rule = "CERTIFICATE"
    try:
        context = ssl.create_default_context(cafile=read(rule))
        if certificate := read(rule := "CLIENT_CERTIFICATE"):
            # Without a password argument, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, read("CLIENT_KEY"), password="")
    except OSError as error:  # SSLError is an OSError
        raise invalid(f"OTEL_EXPORTER_OTLP_{rule}", None, "a file of certificates in PEM") from error


def invalid(name: str, value: str | None, allowed: str) -> KafkaError:
    """Returns the error for an invalid variable; `value` is None if it may be a secret."""
    is_ = "is invalid" if value is None else f"is {value!r}"
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{name} {is_}; it may be {allowed}.")
