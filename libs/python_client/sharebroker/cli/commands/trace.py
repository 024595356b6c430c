"""`sharebroker trace`: the history of one record as a tree of spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from sharebroker.cli.jaeger import FinishedSpan, Jaeger, SpanName
from sharebroker.cli.options import AsJson, Partition, Topic
from sharebroker.cli.output import (
    BAD_USAGE,
    FAILED,
    columns,
    console,
    print_failure,
    print_json,
    print_notice,
    table,
)
from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
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


EXAMPLES: Final = (
    "sharebroker trace orders 0 4711",
    "sharebroker trace orders 0 4711 --group billing --jaeger http://127.0.0.1:16686",
)
_MAX_HOURS: Final = 100_000.0
_COLUMNS: Final = columns("after#", "took#", "what SPAN", "service", "details")


def trace(
    topic: Topic,
    partition: Partition,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Offset of the record.")],
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Only this group; omit the deliveries of other groups."),
    ] = None,
    jaeger: Annotated[
        str,
        typer.Option("--jaeger", envvar="SHAREBROKER_JAEGER", metavar="URL", help="Jaeger's query API."),
    ] = "http://127.0.0.1:16686",
    hours: Annotated[
        float, typer.Option("--hours", min=0, max=_MAX_HOURS, help="How many hours to search back.")
    ] = 48.0,
    as_json: AsJson = False,
) -> None:
    """Show a record's history from Jaeger: its publishing, deliveries and acknowledgements.

    Exit code 1 if Jaeger has no trace of the record, 2 if Jaeger cannot be queried.
    """
    try:
        backend = Jaeger(jaeger)
        now = clock.now()
        traces_found = backend.find(_attributes(topic, partition, offset), now - hours * 3600, now)
        if not traces_found:
            missing = f"{jaeger} has no trace of {topic}-{partition}@{offset}. {_WHY_NOT}"
            print_failure(KafkaError(ErrorCode.RESOURCE_NOT_FOUND, missing), as_json)
            raise typer.Exit(FAILED)
        spans = traces_found[0]
        history = lines(spans, backend.spans(elsewhere(spans)), group)
    except KafkaError as error:
        print_failure(error, as_json)
        raise typer.Exit(BAD_USAGE) from None
    if as_json:
        print_json([_document(line) for line in history])
    else:
        _show(history, topic, f"{topic}-{partition}@{offset}", len(traces_found))


_WHY_NOT: Final = (
    "Possible reasons: it was not sampled (OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG), it has not been "
    "exported yet, the servers export elsewhere (OTEL_EXPORTER_OTLP_ENDPOINT), or it is older than --hours."
)


def _attributes(topic: str, partition: int, offset: int) -> dict[str, str]:
    return {names.TOPIC: topic, names.PARTITION: str(partition), names.OFFSET: str(offset)}


def _show(history: Sequence[Line], topic: str, place: str, traces: int) -> None:
    first = history[0].span
    rows = [_row(line, first.begun, topic) for line in history]
    console().print(table(rows, _COLUMNS, title=f"{place}, trace {first.name.trace}"))
    if traces > 1:
        print_notice(f"There are {traces} traces with this offset; this is the newest.")


def _row(line: Line, begun: float, topic: str) -> dict[str, str]:
    span = line.span
    shared = " (for several records)" if line.shared else ""
    return {
        "after": _time(span.begun - begun),
        "took": _time(span.seconds),
        "what": "  " * line.depth + title(span, topic) + shared,
        "service": span.service,
        "details": details(span),
    }


def _time(seconds: float) -> str:
    if abs(seconds) < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.2f} s"


def _document(line: Line) -> dict[str, Any]:
    span: FinishedSpan = line.span
    return {
        "depth": line.depth,
        "shared": line.shared,
        "trace_id": span.name.trace,
        "span_id": span.name.span,
        "parent_id": span.parent or None,
        "operation": span.operation,
        "service": span.service,
        "begun": span.begun,
        "seconds": span.seconds,
        "error": span.error or None,
        "attributes": dict(span.attributes),
    }
