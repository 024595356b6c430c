"""`sharebroker trace`: the story of one record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from sharebroker.cli.failures import BAD_USAGE, FAILED
from sharebroker.cli.jaeger import Jaeger
from sharebroker.cli.options import MOST, AsJson, Topic
from sharebroker.cli.output import Column, console, print_json, say, table
from sharebroker.tracing.finished_span import FinishedSpan
from sharebroker.tracing.record_history import Line, details, elsewhere, lines, title
from sharebroker_protocol import clock
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names

EXAMPLES: Final = (
    "sharebroker trace orders 0 4711",
    "sharebroker trace orders 0 4711 --group billing --jaeger http://127.0.0.1:16686",
)
_MOST_HOURS: Final = 100_000.0
_COLUMNS: Final = (
    Column("AFTER", "after", number=True),
    Column("TOOK", "took", number=True),
    Column("WHAT", "what"),
    Column("WHERE", "service"),
    Column("DETAILS", "details"),
)


def trace(
    topic: Topic,
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", min=0, max=MOST, help="Number of the partition.")
    ],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Offset of the record.")],
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Leave out what other groups did with it.")
    ] = None,
    jaeger: Annotated[
        str,
        typer.Option("--jaeger", envvar="SHAREBROKER_JAEGER", metavar="URL", help="Jaeger's query API."),
    ] = "http://127.0.0.1:16686",
    hours: Annotated[
        float, typer.Option("--hours", min=0, max=_MOST_HOURS, help="How far to look back.")
    ] = 48.0,
    as_json: AsJson = False,
) -> None:
    """Tell a record's way from Jaeger: who made, appended, acquired, lost and settled it, and when.

    Exit code 1 where Jaeger has no trace of it, 2 where Jaeger cannot be asked.
    """
    try:
        asked = Jaeger(jaeger)
        now = clock.now()
        found = asked.find(_attributes(topic, partition, offset), now - hours * 3600, now)
        if not found:
            say(f"sharebroker: {jaeger} has no trace of {topic}-{partition}@{offset}. {_WHY_NOT}")
            raise typer.Exit(FAILED)
        spans = found[0]
        story = lines(spans, asked.spans(elsewhere(spans)), group)
    except KafkaError as error:
        say(f"sharebroker: {error.message}")
        raise typer.Exit(BAD_USAGE) from None
    if as_json:
        print_json([_document(line) for line in story])
    else:
        _show(story, topic, f"{topic}-{partition}@{offset}", len(found))


_WHY_NOT: Final = (
    "It was not sampled (OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG), or has not arrived yet, or the "
    "processes tell their traces elsewhere (OTEL_EXPORTER_OTLP_ENDPOINT), or it is older than --hours."
)


def _attributes(topic: str, partition: int, offset: int) -> dict[str, str]:
    return {names.TOPIC: topic, names.PARTITION: str(partition), names.OFFSET: str(offset)}


def _show(story: Sequence[Line], topic: str, place: str, traces: int) -> None:
    first = story[0].span
    rows = [_row(line, first.begun, topic) for line in story]
    console().print(table(rows, _COLUMNS, title=f"{place}, trace {first.name.trace}"))
    if traces > 1:
        say(f"There are {traces} traces with this offset; this is the newest.")


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
