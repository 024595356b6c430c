"""A record's way, put in order out of the spans that were told of it."""

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
"""Attributes that are shown, and how they are called there."""


class Line(NamedTuple):
    """A span in the story; `depth` is how far below the first it is, `shared` that it is of another trace."""

    depth: int
    span: FinishedSpan
    shared: bool = False


def lines(
    spans: Sequence[FinishedSpan], linked: Iterable[FinishedSpan] = (), group: str | None = None
) -> list[Line]:
    """Spans of one trace as a tree, what began first first; with a group, nothing of other groups.

    `linked` are spans of other traces, shown below those that name them: work for many records at once.
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
    """Work in other traces that these were part of, each once."""
    own = {span.name.trace for span in spans}
    named = [name for span in spans for name in _work(span) if name.trace not in own]
    return list(dict.fromkeys(named))


def _work(span: FinishedSpan) -> tuple[SpanName, ...]:
    """What a span was done in. Links of work for many records lead the other way, to the others' spans."""
    return () if names.COUNT in span.attributes else span.links


def details(span: FinishedSpan) -> str:
    """What a span says besides its name."""
    told = [f"{short} {span.attributes[name]}" for name, short in _DETAILS if name in span.attributes]
    return ", ".join([*told, f"error: {span.error}"] if span.error else told)


def title(span: FinishedSpan, topic: str) -> str:
    """A span's name without what is said above: the topic, a call's package."""
    return span.operation.removesuffix(f" {topic}").rpartition(".")[2]
