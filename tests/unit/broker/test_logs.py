"""Log lines of a trace carry its id; audit lines ignore the level, and may have their own file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.sampling import Sampling, SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer, context_of
from sharebroker_server.broker import logs
from sharebroker_server.broker.logs import add_trace, open_audit_file
from sharebroker_server.security.audit import AUDIT


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    provider = TracerProvider(shutdown_on_exit=False)
    limit = SpanLimit(1.0, 10, lambda: 0.0)
    made = Tracer(provider.get_tracer("test"), Sampling(1.0, True), limit, lambda: 1.0, lambda: 0.0)
    tracing.turn(made)
    yield made
    tracing.turn(None)


def test_log_line_inside_a_span_has_its_trace_id(tracer: Tracer) -> None:
    span = tracer.start("call", None, SpanKind.SERVER, {})
    assert span is not None
    context = context_of(span)
    with tracer.within(span):
        line = add_trace(None, "info", {"event": "x"})
    assert line == {
        "event": "x",
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
    }
    assert add_trace(None, "info", {"event": "x"}) == {"event": "x"}


def test_log_line_outside_a_span_is_unchanged() -> None:
    assert add_trace(None, "info", {"event": "x"}) == {"event": "x"}


def test_lines_of_several_brokers_have_their_number() -> None:
    add = logs._named(3)
    assert add(None, "info", {"event": "x"}) == {"event": "x", "broker": 3}
    assert add(None, "info", {"event": "x", "broker": 1}) == {"event": "x", "broker": 1}


@pytest.fixture
def audit_file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "audit.log"
    logs._audit_file.close()


def written(event: dict[str, object]) -> None:
    with pytest.raises(structlog.DropEvent):
        logs._audit_file(None, "info", event)


def test_audit_lines_go_to_their_file_which_may_be_renamed(audit_file: Path) -> None:
    open_audit_file(audit_file)
    written({"logger": AUDIT, "event": "a"})
    audit_file.rename(renamed := audit_file.with_suffix(".1"))
    written({"logger": AUDIT, "event": "b"})
    assert orjson.loads(renamed.read_bytes()) == {"logger": AUDIT, "event": "a"}
    assert orjson.loads(audit_file.read_bytes()) == {"logger": AUDIT, "event": "b"}
    assert renamed.stat().st_mode & 0o777 == 0o600
    assert logs._audit_file(None, "info", {"event": "c"}) == {"event": "c"}, "other lines stay in the log"


def test_an_audit_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KafkaError) as caught:
        open_audit_file(tmp_path)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_audit_lines_are_written_whatever_the_level_is() -> None:
    logs.set_level("error")
    try:
        with pytest.raises(structlog.DropEvent):
            logs._threshold(None, "info", {"event": "a"})
        assert logs._threshold(None, "info", {"event": "a", "logger": AUDIT})
    finally:
        logs.set_level("info")
