"""The history of a record as a tree of spans."""

from __future__ import annotations

from dataclasses import replace

from sharebroker.cli.jaeger import FinishedSpan, SpanName, of_jaeger
from sharebroker.cli.trace import details, elsewhere, lines, title
from sharebroker_protocol.tracing import names
from tests.unit.client.cli.test_jaeger import DOCUMENT, TRACE


def test_hihistory_is_a_tree_ordered_by_time() -> None:
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


def test_hihistory_excludes_records_of_the_same_write() -> None:
    another = SpanName("f" * 32, "0a")
    written = FinishedSpan(
        SpanName(TRACE, "01"), "", "write state orders", "server", 1.0, 0.1, links=(another,)
    )
    written = replace(written, attributes={names.COUNT: 2})
    assert elsewhere([written]) == []
    released = FinishedSpan(another, "", "release orders", "server", 1.0, 0.1, links=(written.name,))
    assert [line.span for line in lines([written], [released])] == [written]
