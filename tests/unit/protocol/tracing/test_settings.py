"""Settings of telemetry, and the variables that are validated."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.sampling import Sampling
from sharebroker_protocol.tracing.settings import OFF, Queue, parse, read
from tests.testkit.certificates import Authority
from tests.testkit.tables import each

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HERE = {ENDPOINT: "http://127.0.0.1:4317"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SERVICE_NAME": "a", "PATH": "b"},
        {ENDPOINT: ""},
        {"OTEL_TRACES_EXPORTER": "none", **HERE},
    ],
)
def test_telemetry_is_off_by_default(environment: dict[str, str]) -> None:
    found = parse(environment)
    assert (found.traces, found.metrics) == (None, None)


def test_otel_sdk_disabled_turns_telemetry_off() -> None:
    assert parse({"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_SAMPLER": "wrong", **HERE}) is OFF


def test_an_endpoint_enables_traces() -> None:
    found = parse(HERE)
    assert found.traces == "http://127.0.0.1:4317"
    assert found.metrics is None
    assert found.sampling == Sampling(1.0, parent_based=True)
    assert found.queue == Queue(2048, 128, 5.0)


def test_an_exporter_uses_the_default_endpoint() -> None:
    found = parse({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp"})
    assert (found.traces, found.metrics) == ("http://127.0.0.1:4317", "http://127.0.0.1:4317")


def test_signals_may_have_different_endpoints() -> None:
    found = parse(
        {
            **HERE,
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://traces:1",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://metrics:2",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }
    )
    assert (found.traces, found.metrics, found.metrics_interval) == (
        "https://traces:1",
        "http://metrics:2",
        0.5,
    )


def test_http_endpoints_are_complete_urls() -> None:
    http = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_METRICS_EXPORTER": "otlp"}
    found = parse({**http, ENDPOINT: "http://here:4318/otel/"})
    assert (found.traces, found.metrics) == (
        "http://here:4318/otel/v1/traces",
        "http://here:4318/otel/v1/metrics",
    )
    assert (found.traces_over_http, found.metrics_over_http) == (True, True)
    own = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/b", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}
    found = parse({**http, **own})
    assert (found.traces, found.metrics) == ("http://a/b", "http://127.0.0.1:4317")
    assert (found.traces_over_http, found.metrics_over_http) == (True, False)


@pytest.mark.parametrize(
    ("sampler", "ratio", "found"),
    [
        ("always_off", None, Sampling(0.0, parent_based=False)),
        ("traceidratio", "0.25", Sampling(0.25, parent_based=False)),
        ("parentbased_traceidratio", None, Sampling(1.0, parent_based=True)),
        ("parentbased_always_off", "7", Sampling(0.0, parent_based=True)),
    ],
)
def test_sampler_variables_determine_the_sampling(sampler: str, ratio: str | None, found: Sampling) -> None:
    variables = {**HERE, "OTEL_TRACES_SAMPLER": sampler}
    assert (
        parse(variables if ratio is None else variables | {"OTEL_TRACES_SAMPLER_ARG": ratio}).sampling
        == found
    )


def test_queue_settings() -> None:
    found = parse({**HERE, "OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_BSP_SCHEDULE_DELAY": "500"}).queue
    assert found == Queue(100, 100, 0.5)
    assert (found.rate, found.burst) == (100, 100)
    assert Queue().burst == 205


@each(
    "name, value",
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_METRICS_EXPORTER", "prometheus"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ("OTEL_TRACES_SAMPLER_ARG", "some"),
        (ENDPOINT, "127.0.0.1:4317"),
        (ENDPOINT, "http://"),
        (ENDPOINT, "http://a:port"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nope"),
        ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/"),
    ],
)
def test_invalid_variables_are_rejected_by_name(name: str, value: str) -> None:
    variables = {**HERE, "OTEL_TRACES_SAMPLER": "traceidratio", name: value}
    with pytest.raises(KafkaError) as refused:
        parse(variables)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message.startswith(f"{name} is {value!r}; it may be ")


def test_password_in_an_endpoint_is_not_repeated() -> None:
    with pytest.raises(KafkaError) as refused:
        parse({ENDPOINT: "http://me:secret@host:4317"})
    assert "secret" not in refused.value.message


def test_valid_variables_are_accepted(tmp_path: Path) -> None:
    certificate = tmp_path / "ca.crt"
    certificate.touch()
    found = parse(
        {
            **HERE,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cr3t==, x-tenant = a b ,",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.5",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "GZIP",
            "OTEL_EXPORTER_OTLP_INSECURE": "True",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate),
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "DELTA",
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2147483647",
            "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": " ",
            "OTEL_BSP_EXPORT_TIMEOUT": "0",
            "OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES": "unavailable, ABORTED",
            "OTEL_SDK_DISABLED": "False",
        }
    )
    assert found.traces == HERE[ENDPOINT]


def test_read_removes_empty_values_and_spaces() -> None:
    environment = {**HERE, "OTEL_SERVICE_NAME": " a ", "OTEL_EXPORTER_OTLP_TIMEOUT": " ", "PATH": " b "}
    environment["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION"] = "None"
    assert read(environment) == parse(HERE)
    assert environment == {**HERE, "OTEL_SERVICE_NAME": "a", "PATH": " b "}


@each("of", ["", "TRACES_", "METRICS_"])
@each(
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


@each("signal", ["", "TRACES_", "METRICS_"])
@each(
    "certificate, key, valid",
    [
        ("certificate", "key", True),
        ("both", "both", True),
        ("certificate", None, False),  # gRPC aborts the process
        (None, "key", False),
        ("certificate", "empty", False),
        ("empty", "key", False),
        ("certificate", "absent", False),
        ("certificate", "other key", False),
        ("certificate", "key with a password", False),  # OpenSSL prompts for it
    ],
)
def test_a_clients_certificate_needs_its_key(
    signal: str, certificate: str | None, key: str | None, valid: bool, files: Path
) -> None:
    names = {"CLIENT_CERTIFICATE": certificate, "CLIENT_KEY": key}
    variables = HERE | {
        f"OTEL_EXPORTER_OTLP_{signal}{rule}": str(files / name) for rule, name in names.items() if name
    }
    if valid:
        assert parse(variables).traces == HERE[ENDPOINT]
        return
    with pytest.raises(KafkaError, match=f"OTEL_EXPORTER_OTLP_{signal}CLIENT_KEY must name") as refused:
        parse(variables)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a certificate, its key, and files that do not belong to it."""
    folder = tmp_path_factory.mktemp("pem")
    authority = Authority.make(folder / "authority")
    own, other = authority.issue("own", "client"), authority.issue("other", "client")
    key = serialization.load_pem_private_key(own.key.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"s3cr3t"),
    )
    contents = {
        "certificate": own.certificate.read_bytes(),
        "key": own.key.read_bytes(),
        "both": own.both.read_bytes(),
        "other key": other.key.read_bytes(),
        "key with a password": encrypted,
        "empty": b"",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


@each(
    "text, valid",
    [(" a = b%20c ,, d=", True), ("=b", False), ("a", False)],
)
@each("signal", ["", "TRACES_", "METRICS_"])
def test_each_signal_has_the_same_rule_for_headers(signal: str, text: str, valid: bool) -> None:
    variables = {**HERE, f"OTEL_EXPORTER_OTLP_{signal}HEADERS": text}
    if valid:
        assert parse(variables).traces == HERE[ENDPOINT]
        return
    with pytest.raises(KafkaError) as refused:
        parse(variables)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@each(
    "name, value",
    [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "inf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "deflate"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "1"),
        ("OTEL_SDK_DISABLED", "maybe"),
    ],
)
def test_values_that_only_the_sdk_reads_are_left_to_it(name: str, value: str) -> None:
    assert parse({**HERE, name: value}) == parse(HERE)
