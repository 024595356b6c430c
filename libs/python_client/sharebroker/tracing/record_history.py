"""The history of a record as a tree of spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker.tracing.finished_span import FinishedSpan, SpanName
from sharebroker_protocol.tracing import names

_DETAILS: Final = (
    (names.GROUP, "group"),
    (names.CLIENT, "member"),
    (names.DELIVERY, "delivery"),
    (names.STATE, "then"),
    (names.REASON, "reason"),
    (names.COUNT, "records"),
    ("messaging.sharebroker.start_offset", "start offset"),
)
"""Attributes to show, with their labels."""


class Line(NamedTuple):
    """A span in the history; `depth` is its level, `shared` whether it belongs to another trace."""

    depth: int
    span: FinishedSpan
    shared: bool = False


def lines(
    spans: Sequence[FinishedSpan], linked: Iterable[FinishedSpan] = (), group: str | None = None
) -> list[Line]:
    """Returns the spans of one trace as a tree, ordered by start time; with `group`, without other groups.

    `linked` are spans of other traces, shown below the spans that link to them: work for many records at
    once.
    """
    known = {span.name.span for span in spans}
    children: dict[str, list[FinishedSpan]] = {}
    for span in sorted(spans, key=lambda span: span.begun):
        children.setdefault(span.parent if span.parent in known else "", []).append(span)
    others = {span.name: span for span in linked}
    return list(_below("", 0, children, others, group))


def _below(
    parent: str,
    depth: int,
    children: Mapping[str, list[FinishedSpan]],
    others: Mapping[SpanName, FinishedSpan],
    group: str | None,
) -> Iterator[Line]:
    for span in children.get(parent, ()):
        if group is not None and span.attributes.get(names.GROUP, group) != group:
            continue
        yield Line(depth, span)
        for name in _work(span):
            if name in others:
                yield Line(depth + 1, others[name], shared=True)
        yield from _below(span.name.span, depth + 1, children, others, group)


def elsewhere(spans: Sequence[FinishedSpan]) -> list[SpanName]:
    """Returns the linked spans in other traces, each once."""
    own = {span.name.trace for span in spans}
    named = [name for span in spans for name in _work(span) if name.trace not in own]
    return list(dict.fromkeys(named))


def _work(span: FinishedSpan) -> tuple[SpanName, ...]:
    """Returns the linked spans of shared work. Links of the shared work itself lead back, and are ignored."""
    return () if names.COUNT in span.attributes else span.links


def details(span: FinishedSpan) -> str:
    """Returns the attributes of a span to show, as text."""
    attributes = [f"{short} {span.attributes[name]}" for name, short in _DETAILS if name in span.attributes]
    return ", ".join([*attributes, f"error: {span.error}"] if span.error else attributes)


def title(span: FinishedSpan, topic: str) -> str:
    """Returns the span's name without the topic and the package of an RPC."""
    return span.operation.removesuffix(f" {topic}").rpartition(".")[2]
