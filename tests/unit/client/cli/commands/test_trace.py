"""The history of a record as a tree of spans."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sharebroker.cli.app import app
from sharebroker.cli.commands import trace
from sharebroker.cli.commands.trace import details, elsewhere, lines, title
from sharebroker.cli.jaeger import FinishedSpan, SpanName, of_jaeger
from sharebroker_protocol.tracing import names
from tests.unit.client.cli.test_jaeger import DOCUMENT, TRACE


def test_history_is_a_tree_ordered_by_time() -> None:
    history = lines(of_jaeger(DOCUMENT))
    assert [(line.depth, title(line.span, "orders")) for line in history] == [
        (0, "create"),
        (1, "acquire"),
        (2, "lock lost"),
        (1, "acquire"),
        (0, "Leader/Produce"),
    ]
    assert details(history[1].span) == "group billing"
    assert details(history[2].span) == "error: late"


def test_group_option_omits_other_groups() -> None:
    history = lines(of_jaeger(DOCUMENT), group="audit")
    assert [line.span.name.span for line in history] == ["01", "05", "02"]


def test_shared_work_is_shown_below_its_span() -> None:
    other = SpanName("f" * 32, "0a")
    accepted = FinishedSpan(
        SpanName(TRACE, "01"), "", "accept orders", "server", 1.0, 0.1, links=(other, other)
    )
    written = FinishedSpan(other, "", "write state orders", "server", 1.05, 0.1)
    assert elsewhere([accepted]) == [other]
    history = lines([accepted], [written])
    assert [(line.depth, line.shared) for line in history][:2] == [(0, False), (1, True)]


def test_history_excludes_records_of_the_same_write() -> None:
    another = SpanName("f" * 32, "0a")
    written = FinishedSpan(
        SpanName(TRACE, "01"), "", "write state orders", "server", 1.0, 0.1, links=(another,)
    )
    written = replace(written, attributes={names.COUNT: 2})
    assert elsewhere([written]) == []
    released = FinishedSpan(another, "", "release orders", "server", 1.0, 0.1, links=(written.name,))
    assert [line.span for line in lines([written], [released])] == [written]


class Backend:
    """A tracing backend with the traces that a test sets."""

    traces: Sequence[list[FinishedSpan]] = ()

    def __init__(self, url: str) -> None:
        assert url == "http://jaeger:1"

    def find(self, attributes: Mapping[str, str], since: float, until: float) -> Sequence[list[FinishedSpan]]:
        assert attributes == {names.TOPIC: "orders", names.PARTITION: "0", names.OFFSET: "7"}
        assert round(until - since) == 3600
        return self.traces

    def spans(self, named: Sequence[SpanName]) -> list[FinishedSpan]:
        assert not named
        return []


@pytest.mark.parametrize("found", [1, 2])
def test_newest_trace_is_shown(monkeypatch: pytest.MonkeyPatch, found: int) -> None:
    monkeypatch.setattr(trace, "Jaeger", Backend)
    monkeypatch.setattr(Backend, "traces", [of_jaeger(DOCUMENT)] * found)
    command = ["trace", "orders", "0", "7", "--jaeger", "http://jaeger:1", "--hours", "1"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert f"orders-0@7, trace {TRACE}" in shown.stdout
    assert "error: late" in shown.stdout
    assert ("There are 2 traces" in shown.stderr) == (found == 2)
    spans = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [span["depth"] for span in spans] == [0, 1, 2, 1, 0]
    assert {span["trace_id"] for span in spans} == {TRACE}


def test_record_without_trace_is_code_1_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "Jaeger", Backend)
    command = ["trace", "orders", "0", "7", "--jaeger", "http://jaeger:1", "--hours", "1"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 1
    assert "has no trace of orders-0@7. Possible reasons: it was not sampled" in shown.stderr
