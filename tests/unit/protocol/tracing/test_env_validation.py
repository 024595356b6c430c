"""Invalid OTEL_* variables are rejected without their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.env_validation import validate
from sharebroker_protocol.tracing.settings import parse
from tests.unit.protocol.tracing.test_settings import HERE


@pytest.mark.parametrize("of", ["", "TRACES_", "METRICS_"])
@pytest.mark.parametrize(
    "value",
    [
        "authorization: Bearer s3cr3tKEY",
        "a=b,s3cr3tKEY",
        "a=s3cr3tKEY;b=c",
        "a key=s3cr3tKEY",
        "key!=s3cr3tKEY",  # gRPC rejects the name, and its error contains the value
        "key-bin=s3cr3tKEY",
        "key=s3cr3tKEY%0A",
        "key=s3cr3tKEY%C3%A4",
    ],
)
def test_invalid_headers_are_rejected_and_not_repeated(of: str, value: str) -> None:
    name = f"OTEL_EXPORTER_OTLP_{of}HEADERS"
    with pytest.raises(KafkaError) as refused:
        parse({**HERE, name: value})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message.startswith(f"{name} is invalid; it may be NAME=VALUE")
    assert "s3cr3tKEY" not in refused.value.message


@pytest.mark.parametrize("rule", ["CERTIFICATE", "CLIENT_CERTIFICATE"])
def test_invalid_certificates_are_rejected(rule: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no certificate")
    name = f"OTEL_EXPORTER_OTLP_{rule}"
    http = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    with pytest.raises(KafkaError, match=f"^INVALID_CONFIG: {name} ") as refused:
        parse({**HERE, **http, name: str(tmp_path / "file")})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("rule", "value", "valid"),
    [
        ("TIMEOUT", "3600000", True),
        ("TIMEOUT", "3600001", False),
        ("TIMEOUT", "inf", False),
        ("TIMEOUT", "-1", False),
        ("COMPRESSION", "None", True),
        ("COMPRESSION", "deflate", False),
        ("INSECURE", "TRUE", True),
        ("INSECURE", "1", False),
        ("HEADERS", " a = b%20c ,, d=", True),
        ("HEADERS", "=b", False),
        ("CLIENT_CERTIFICATE", "/", False),
    ],
)
@pytest.mark.parametrize("signal", ["", "TRACES_", "METRICS_"])
def test_each_signal_has_the_same_rules(signal: str, rule: str, value: str, valid: bool) -> None:
    variables = {f"OTEL_EXPORTER_OTLP_{signal}{rule}": value}
    if valid:
        validate(variables)
        return
    with pytest.raises(KafkaError) as refused:
        validate(variables)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
