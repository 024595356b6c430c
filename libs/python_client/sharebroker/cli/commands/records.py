"""`sharebroker records`: shows stored records without consuming them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sharebroker import aio
from sharebroker.admin_model import EARLIEST, LATEST
from sharebroker.cli.options import (
    DEFAULT_SERVER,
    MOST,
    AsJson,
    OffsetSpec,
    Partition,
    Server,
    Topic,
    examples,
    parse_position,
)
from sharebroker.cli.output import (
    amount,
    columns,
    print_facts,
    print_notice,
    print_rows,
    printable,
    readable_time,
    stderr,
)
from sharebroker.cli.session import content
from sharebroker_protocol.model import TopicPartition

if TYPE_CHECKING:
    from sharebroker.aio.admin import Admin
    from sharebroker.aio.record_browser import BrowsedRecord, RecordBrowser, RecordFilter

app = typer.Typer(no_args_is_help=True, help="Show stored records without consuming them.")

_COLUMNS: Final = columns("partition#", "offset#", "time", "key", "headers", "value")
_SHOWN: Final = 200
"""Characters of a value in the table."""

Bounds = Mapping[TopicPartition, int]

Uncommitted = Annotated[
    bool, typer.Option("--uncommitted", help="Also records of open and aborted transactions.")
]


@app.command(
    epilog=examples("sharebroker records peek orders 0 4711", "sharebroker records peek orders 0 4711 --json")
)
def peek(
    topic: Topic,
    partition: Partition,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Offset of the record.")],
    uncommitted: Uncommitted = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show one stored record: its time, key, headers and value.

    The command takes no lock: groups receive the record as if it had not been read.
    """
    record = asyncio.run(_peek(server, TopicPartition(topic, partition), offset, not uncommitted))
    if as_json:
        print_facts(record_document(record), as_json)
        return
    headers = {name: printable(value) for name, value in record.headers}
    facts = _place(record) | {
        "time": readable_time(record.timestamp / 1000),
        "key": printable(record.key),
        "headers": headers,
        "value": printable(record.value),
    }
    print_facts(facts, as_json)


async def _peek(server: str, place: TopicPartition, offset: int, committed: bool) -> BrowsedRecord:
    from sharebroker.aio.record_browser import RecordBrowser

    async with RecordBrowser(server, committed=committed) as browser:
        return await browser.get(place, offset)


@app.command(
    epilog=examples(
        "sharebroker records browse orders --limit 50",
        "sharebroker records browse orders --partition 3 --from 1200 --until 1300",
        "sharebroker records browse orders --from 2026-01-31T08:00:00+00:00 --key ada",
        "sharebroker records browse orders --header source=import --json",
    )
)
def browse(
    topic: Topic,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, max=MOST, help="Only this partition; may be repeated."),
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", help="earliest, an offset, or an ISO 8601 time with zone.")
    ] = "earliest",
    until: Annotated[
        str, typer.Option("--until", help="Where to stop, as in --from; the record there is not shown.")
    ] = "latest",
    key: Annotated[
        str | None, typer.Option("--key", help="Only records with this key.", show_default=False)
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(
            "--header",
            metavar="NAME[=VALUE]",
            help="Only records that have this header.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most records to show.")] = 20,
    uncommitted: Uncommitted = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List stored records by partition and offset.

    The command takes no lock: groups receive the records as if they had not been read. With --key or --header
    it reads all records of the range until it has found enough.
    """
    selection = RecordSelection(
        topic,
        partition,
        parse_position(from_, "--from"),
        parse_position(until, "--until"),
        parse_filter(key, header),
        limit,
    )
    found = asyncio.run(_browse(server, selection, not uncommitted))
    rows = [record_document(one) if as_json else record_row(one) for one in found]
    print_rows(rows, _COLUMNS, as_json, f"Topic {topic} has no such records.")
    if len(found) == limit and not as_json:
        print_notice(f"The list ends after {amount(limit, 'record')}; --limit lists more.")


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """The records to list: at most `limit` of a topic between two positions; None means all partitions."""

    topic: str
    partitions: list[int] | None
    start: OffsetSpec
    end: OffsetSpec
    where: RecordFilter
    limit: int


def parse_filter(key: str | None, header: str | None) -> RecordFilter:
    """Parses a key, and a header as NAME or NAME=VALUE. Raises typer.BadParameter."""
    name, equals, value = (header or "").partition("=")
    if header is not None and not name:
        raise typer.BadParameter(f"{header!r} is not of the form NAME or NAME=VALUE.", param_hint="--header")
    from sharebroker.aio.record_browser import RecordFilter

    return RecordFilter(
        None if key is None else key.encode(), name or None, value.encode() if equals else None
    )


async def _browse(server: str, selection: RecordSelection, committed: bool) -> list[BrowsedRecord]:
    async with aio.Admin(server) as admin:
        count = (await admin.describe_topic(selection.topic)).partitions
        numbers = sorted(set(selection.partitions)) if selection.partitions else range(count)
        places = [TopicPartition(selection.topic, number) for number in numbers]
        first = await admin.list_offsets(places, EARLIEST)
        end = await admin.list_offsets(places, LATEST)
        logs = {place: (first[place] or 0, end[place] or 0) for place in places}
        starts = within(logs, await _resolved(admin, places, selection.start))
        ends = within(logs, await _resolved(admin, places, selection.end))
    from sharebroker.aio.record_browser import RecordBrowser

    async with RecordBrowser(server, committed=committed) as browser:
        return await _collect(browser, starts, ends, selection)


async def _resolved(
    admin: Admin, places: Iterable[TopicPartition], position: OffsetSpec
) -> dict[TopicPartition, int | None]:
    """Returns the offset of a position in each partition; None if it is behind the last record."""
    if position.offset is not None:
        return dict.fromkeys(places, position.offset)
    assert position.timestamp is not None
    return await admin.list_offsets(places, position.timestamp)


def within(
    logs: Mapping[TopicPartition, tuple[int, int]], offsets: Mapping[TopicPartition, int | None]
) -> dict[TopicPartition, int]:
    """Returns offsets within the bounds of their logs; an offset of None is the end of the log."""
    return {
        place: end if offset is None else min(max(offset, start), end)
        for place, offset in offsets.items()
        for start, end in (logs[place],)
    }


async def _collect(
    browser: RecordBrowser, starts: Bounds, ends: Bounds, selection: RecordSelection
) -> list[BrowsedRecord]:
    """Reads the ranges one after the other, and shows the progress if standard error is a terminal."""
    found: list[BrowsedRecord] = []
    display = stderr()
    counters = (SpinnerColumn(), TextColumn("{task.completed:,} offsets read"), TimeElapsedColumn())
    with Progress(*counters, console=display, transient=True, disable=not display.is_terminal) as progress:
        task, read = progress.add_task("read", total=None), 0
        for place, start in starts.items():
            done = read - start

            def on_progress(offset: int, done: int = done) -> None:
                progress.update(task, completed=done + offset)

            async for record in browser.read(place, start, ends[place], on_progress):
                if selection.where.selects(record):
                    found.append(record)
                    if len(found) == selection.limit:
                        return found
            read += max(0, ends[place] - start)
    return found


def record_document(record: BrowsedRecord) -> dict[str, Any]:
    """Returns a record as plain values; bytes that are not UTF-8 as `value_base64`, `key_base64`."""
    return _place(record) | {"timestamp_ms": record.timestamp, **content(record)}


def record_row(record: BrowsedRecord) -> dict[str, Any]:
    """Returns a record as a row for people; a long value is shortened."""
    value = printable(record.value)
    if value is not None:
        value = value.replace("\n", "\\n")
        value = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    return _place(record) | {
        "time": readable_time(record.timestamp / 1000),
        "key": printable(record.key),
        "headers": {name: printable(each) for name, each in record.headers},
        "value": value,
    }


def _place(record: BrowsedRecord) -> dict[str, Any]:
    return {"topic": record.topic, "partition": record.partition, "offset": record.offset}
