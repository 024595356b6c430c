from __future__ import annotations

import pytest
from opentelemetry.trace import TraceState

from sharebroker_protocol.tracing import context
from sharebroker_protocol.tracing.context import TraceContext, of_headers, parse

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CONTEXT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)


def test_context_round_trip() -> None:
    assert parse(PARENT, "a=b") == CONTEXT._replace(state="a=b")
    assert CONTEXT.parent == PARENT
    assert CONTEXT.headers == [("traceparent", PARENT)]
    assert CONTEXT._replace(state="a=b").headers[1] == ("tracestate", "a=b")


@pytest.mark.parametrize(
    ("parent", "sampled"), [(PARENT, True), (PARENT[:-1] + "0", False), (PARENT[:-2] + "03", True)]
)
def test_sampled_flag_is_lowest_bit(parent: str, sampled: bool) -> None:
    context = parse(parent)
    assert context is not None
    assert context.sampled == sampled


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT + "-more",  # version 00 has four fields
        "ff" + PARENT[2:],
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
    ],
)
def test_invalid_traceparent_is_none(parent: str) -> None:
    assert parse(parent) is None


def test_later_version_may_have_more_fields() -> None:
    assert parse("cc" + PARENT[2:] + "-what-will-be") == CONTEXT


@pytest.mark.parametrize("state", ["a=b", "a=b,c=d", "a@v=b , ", "1x/y@z=~ !"])
def test_tracestate_is_passed_on_unchanged(state: str) -> None:
    assert parse(PARENT, state) == CONTEXT._replace(state=state)
    assert len(TraceState.from_header([state])) == sum("=" in part for part in state.split(","))


@pytest.mark.parametrize(
    "state",
    [
        "a=" + "b" * 511,
        "a",
        "a=",
        "A=b",
        "a=b=c",
        "a=\xff",
        "\xff\xfe=",
        "a=b,a=c",
        ",".join(f"a{number}=b" for number in range(33)),
    ],
)
def test_invalid_tracestate_is_dropped(state: str) -> None:
    assert parse(PARENT, state) == CONTEXT


def test_megabyte_tracestate_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_MEMBER", None)
    assert parse(PARENT, "a=b," * 250_000) == CONTEXT


def test_last_header_wins() -> None:
    other = PARENT.replace("4bf9", "4bf8").encode()
    headers = [("traceparent", other), ("k", None), ("traceparent", PARENT.encode()), ("tracestate", b"a=b")]
    assert of_headers(headers) == CONTEXT._replace(state="a=b")
    assert of_headers([("traceparent", None)]) is None
    assert of_headers([("traceparent", b"\xff")]) is None
    assert of_headers([]) is None
