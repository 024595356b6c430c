"""OTLP over HTTP: what is tried again, what is said of what does not arrive."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing import otlp_http
from sharebroker_protocol.tracing.otlp_http import TRACES, Post
from sharebroker_server.testkit.servers import free_port
from tests.support.otlp import collecting_over_http


@pytest.fixture(autouse=True)
def no_pauses_and_time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_http, "_PAUSE", 0.01)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")


@pytest.mark.parametrize(
    ("statuses", "taken", "attempts"),
    [([], True, 1), ([503, 429], True, 3), ([400], False, 1), ([302], False, 1), ([401], False, 1)],
)
def test_what_may_be_taken_later_is_tried_again(
    statuses: list[int], taken: bool, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    with collecting_over_http(*statuses) as collector:
        assert Post(f"{collector.url}/v1/traces?key=hush", TRACES).send(b"") is taken
        assert [path.partition("?")[0] for path in collector.paths] == ["/v1/traces"] * attempts
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    expected = [] if taken else [f"{collector.url}/v1/traces: HTTP status {statuses[0]}"]
    assert said == expected


def test_nobody_there_is_told_when_time_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.1")
    assert not Post(f"http://127.0.0.1:{free_port()}/v1/traces", TRACES).send(b"")
    (said,) = caplog.messages
    assert "refused" in said


def test_who_stops_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_http, "_PAUSE", 1800.0)
    post = Post(f"http://127.0.0.1:{free_port()}/v1/traces", TRACES)
    post.stop()
    assert not post.send(b"")


@pytest.mark.parametrize("name", ["CERTIFICATE", "CLIENT_CERTIFICATE"])
def test_what_is_no_certificate_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no certificate")
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", str(tmp_path / "file"))
    with pytest.raises(KafkaError, match=f"^INVALID_CONFIG: OTEL_EXPORTER_OTLP_{name} ") as refused:
        Post("https://here/v1/traces", TRACES)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
