"""Functions that commands share: tracing, records as text and as environment variables."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field

import pytest

from sharebroker.cli.session import document, environment, place, traced
from sharebroker.consumer.accumulator import Accumulator
from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.record import AcquiredRecords, Record


@dataclass
class Raw:
    offset: int = 7
    timestamp: int = 1000
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def record(raw: Raw) -> Record:
    sink = Accumulator(lambda: None)
    acquisition = AcquiredRecords(("id", "orders"), 3, (raw.offset, raw.offset), sink)
    acquisition.delivery_count = 2
    return Record(raw, acquisition)


def test_document_has_every_field_of_a_record() -> None:
    assert document(record(Raw(headers=[("h", b"1"), ("n", None)]))) == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1000,
        "delivery_count": 2,
        "key": "k",
        "headers": {"h": "1", "n": None},
        "value": "v",
    }


def test_non_utf8_bytes_are_base64() -> None:
    shown = document(record(Raw(key=None, value=b"\xff")))
    assert (shown["key"], shown["value_base64"]) == (None, "/w==")
    assert "value" not in shown


def test_environment_has_every_field_of_a_record() -> None:
    variables = environment(record(Raw(key=b"a\0b")))
    assert {name: variables[name] for name in variables if name not in os.environ} == {
        "SHAREBROKER_TOPIC": "orders",
        "SHAREBROKER_PARTITION": "3",
        "SHAREBROKER_OFFSET": "7",
        "SHAREBROKER_KEY": "ab",
        "SHAREBROKER_DELIVERY_COUNT": "2",
    }
    assert environment(record(Raw(key=None)))["SHAREBROKER_KEY"] == ""


def test_place_names_topic_partition_and_offset() -> None:
    assert place(record(Raw())) == "orders, partition 3, offset 7"


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment without variables of OpenTelemetry."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for attribute in ("propagate", "handlers"):  # which the set-up of tracing changes
        log = logging.getLogger("opentelemetry")
        monkeypatch.setattr(log, attribute, getattr(log, attribute))
    return monkeypatch


def test_tracing_is_on_only_if_variables_request_it(variables: pytest.MonkeyPatch) -> None:
    with traced():
        assert tracing.on is None
    variables.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with traced():
        assert tracing.on is not None
    assert tracing.on is None
    variables.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with traced():
        assert tracing.on is None


def test_invalid_variable_is_reported(variables: pytest.MonkeyPatch) -> None:
    variables.setenv("OTEL_TRACES_SAMPLER", "sometimes")
    with pytest.raises(KafkaError) as caught, traced():
        pass
    assert caught.value.code is ErrorCode.INVALID_CONFIG
