"""`sharebroker dead-letters`: reads, redrives and discards dead letters."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

import sharebroker
from sharebroker.cli.options import (
    DEFAULT_SERVER,
    MOST,
    AsJson,
    Group,
    Partition,
    Server,
    examples,
    parse_time,
)
from sharebroker.cli.output import (
    FAILED,
    UNFINISHED,
    amount,
    columns,
    print_done,
    print_facts,
    print_json,
    print_notice,
    print_rows,
    readable_time,
    text,
)
from sharebroker.dead_letter_model import (
    DISPOSITIONS,
    DeadLetter,
    DeadLetterCount,
    DeadLetterFilter,
    RedrivePage,
    RedriveResult,
)
from sharebroker_protocol import clock

app = typer.Typer(
    no_args_is_help=True,
    help="List, summarise, show, redrive and discard dead letters: records that groups failed to process.",
)

_LETTERS: Final = columns(
    *("partition#", "offset#", "time", "group_id GROUP", "source", "disposition"),
    *("delivery_count# DELIVERIES", "copy", "reason"),
)
_COUNTS: Final = columns(
    *("letters#", "group_id GROUP", "source_topic TOPIC", "disposition", "reason"),
    *("oldest", "newest", "example"),
)
_RESULTS: Final = columns(
    "partition#", "offset#", "group_id GROUP", "source", "target", "copy_offset# COPY", "error"
)

LETTERS_AT_ONCE: Final = 100
"""Letters of one call; Ctrl-C takes effect between two calls."""

LETTERS_PER_NOTICE: Final = 100
"""Letters after which the progress is printed."""

MOST_SHOWN: Final = 1000
"""Results that are printed."""

Letters = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the dead letter topic.")]
OfGroup = Annotated[str, typer.Option("--group", "-g", help="Only records that this group failed.")]
OfTopic = Annotated[str, typer.Option("--source", help="Only records of this topic.")]
OfPartition = Annotated[
    int | None, typer.Option("--source-partition", min=0, max=MOST, help="Only records of this partition.")
]
Disposition = Annotated[
    str, typer.Option("--disposition", help="Only rejected, exhausted or expired records.")
]
Reason = Annotated[
    str, typer.Option("--reason", help="Only letters whose reason has this text, in any case.")
]
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Only letters from this ISO 8601 time (with zone) on.")
]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="Only letters before this time.")]


@app.command(
    name="list",
    epilog=examples(
        "sharebroker dead-letters list dlq.billing",
        "sharebroker dead-letters list dlq.billing --group billing --reason timeout --limit 10",
    ),
)
def list_(
    topic: Letters,
    group: OfGroup = "",
    source: OfTopic = "",
    source_partition: OfPartition = None,
    disposition: Disposition = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most letters to list.")] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List dead letters by partition and offset."""
    where = _filter(group, source, source_partition, disposition, reason, since, until)
    with sharebroker.DeadLetters(server) as letters:
        found = letters.list_letters(topic, where, limit + 1)
    rows = [letter_row(letter) for letter in found[:limit]]
    print_rows(rows, _LETTERS, as_json, "There are no such dead letters.")
    if len(found) > limit and not as_json:
        print_notice(f"There are more letters than {limit}; --limit lists more.")


@app.command(
    epilog=examples(
        "sharebroker dead-letters summary dlq.billing",
        "sharebroker dead-letters summary dlq.billing --since 2026-01-31T08:00:00+00:00 --json",
    )
)
def summary(
    topic: Letters,
    group: OfGroup = "",
    source: OfTopic = "",
    source_partition: OfPartition = None,
    disposition: Disposition = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    rows: Annotated[int, typer.Option("--rows", min=1, max=1000, help="The most rows.")] = 20,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Count dead letters by group, source topic, disposition and reason.

    In a reason, # stands for a number, <id> for a UUID or hexadecimal number and '...' for a quoted text.
    EXAMPLE is partition and offset of one of the letters, for `show`.
    """
    where = _filter(group, source, source_partition, disposition, reason, since, until)
    with sharebroker.DeadLetters(server) as letters:
        counts = letters.summarize(topic, where, rows)
    shown = [count_row(count) for count in counts]
    print_rows(shown, _COUNTS, as_json, "There are no such dead letters.")


@app.command(
    epilog=examples(
        "sharebroker dead-letters show dlq.billing 1 88",
        "sharebroker dead-letters show dlq.billing 1 88 --bytes 1048576 --json",
    )
)
def show(
    topic: Letters,
    partition: Partition,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Offset of the letter.")],
    most: Annotated[
        int, typer.Option("--bytes", min=1, max=1 << 20, help="The most bytes of key, value and headers.")
    ] = 1 << 16,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: why the record failed, and its key, value and headers."""
    with sharebroker.DeadLetters(server) as letters:
        found = letters.get(topic, partition, offset, most)
    facts = letter_row(found.letter)
    own = {name: text(value) for name, value in found.headers if not name.startswith("__dlq.errors.")}
    facts |= {"key": text(found.key), "value": text(found.value), "headers": own}
    print_facts(facts | {"truncated": found.truncated}, as_json)


@app.command(
    epilog=examples(
        "sharebroker dead-letters redrive dlq.billing --group billing --limit 5 --execute",
        "sharebroker dead-letters redrive dlq.billing --reason timeout --rate 50 --execute",
        "sharebroker dead-letters redrive dlq.billing --to topic --execute",
    )
)
def redrive(
    topic: Letters,
    group: OfGroup = "",
    source: OfTopic = "",
    source_partition: OfPartition = None,
    disposition: Disposition = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="group: to the group that failed the record, and no other. topic: to all groups of the "
            "source topic. Or the name of another topic.",
        ),
    ] = "group",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The most letters: a sample to try first.")
    ] = None,
    rate: Annotated[float, typer.Option("--rate", min=0.1, help="The most letters per second.")] = 500.0,
    execute: Annotated[
        bool, typer.Option("--execute", help="Redrive the letters; without it they are only checked.")
    ] = False,
    reset_hops: Annotated[
        bool,
        typer.Option(
            "--reset-hops", help="Also records that were a dead letter too often; count from 0 again."
        ),
    ] = False,
    request_id: Annotated[
        str,
        typer.Option(
            "--request-id",
            help="Redrive letters again that were redriven before, but each once for this id.",
        ),
    ] = "",
    page_token: Annotated[
        str, typer.Option("--from", metavar="TOKEN", help="Where an interrupted command stopped.")
    ] = "",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show the dead letters that a redrive delivers again, or deliver them with --execute.

    Each letter is redriven once per target: a command that was interrupted or failed can be run again.
    COPY is the offset of the copy. Exit code 1 if a letter cannot be redriven, 3 after Ctrl-C.
    """
    where = _filter(group, source, source_partition, disposition, reason, since, until)
    options: dict[str, Any] = {
        "to_source_topic": to == "topic",
        "to_topic": None if to in ("group", "topic") else to,
        "request_id": request_id,
        "validate_only": not execute,
        "reset_hops": reset_hops,
    }
    run = RedriveRun(page_token, limit, rate if execute else LETTERS_AT_ONCE)
    stopped = False
    with sharebroker.DeadLetters(server) as letters:
        try:
            while run.continues:
                begun = clock.monotonic()
                page = letters.redrive(topic, where, max_letters=run.most, page_token=run.token, **options)
                run.add(page)
                if execute and run.continues:
                    if run.is_notice_due():
                        sent = amount(run.letters, "letter")
                        print_notice(f"{sent}, {run.failed} of them failed; continuing.")
                    pause(len(page.results) / rate - (clock.monotonic() - begun))
        except KeyboardInterrupt:
            stopped = True
    _print_run(run, as_json=as_json, execute=execute)
    if stopped:
        again = f" with --from {run.token}" if run.token else ""
        print_notice(f"Stopped. Run the same command{again} to continue; no letter is redriven twice.")
        raise typer.Exit(UNFINISHED)
    if run.failed:
        raise typer.Exit(FAILED)


@app.command(
    epilog=examples(
        "sharebroker dead-letters discard dlq.billing --until 2026-01-31T08:00:00+00:00",
        "sharebroker dead-letters discard dlq.billing --group billing --execute",
    )
)
def discard(
    topic: Letters,
    group: OfGroup = "",
    source: OfTopic = "",
    source_partition: OfPartition = None,
    disposition: Disposition = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    execute: Annotated[
        bool, typer.Option("--execute", help="Delete the letters; without it they are only counted.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Count the oldest dead letters of each partition, or delete them with --execute.

    A partition's letters are deleted from the oldest on, up to the first one that the options do not select.
    """
    where = _filter(group, source, source_partition, disposition, reason, since, until)
    with sharebroker.DeadLetters(server) as letters:
        found = letters.discard(topic, where, validate_only=not execute)
    result = {"topic": topic, "letters": found.letters, "before_offsets": found.before_offsets}
    if execute:
        print_done(result, as_json, f"Deleted {found.letters} dead letters of {topic}.")
    elif not found.letters:
        print_done(result, as_json, "No dead letters would be deleted.")
    else:
        print_done(result, as_json, f"{found.letters} dead letters would be deleted. Add --execute to do so.")


@app.command(
    epilog=examples(
        "sharebroker dead-letters enable billing",
        "sharebroker dead-letters enable billing --topic dlq.payments --partitions 8 --no-copy",
    )
)
def enable(
    group: Group,
    topic: Annotated[
        str, typer.Option("--topic", "-t", help="Name of the dead letter topic; by default dlq.GROUP.")
    ] = "",
    partitions: Annotated[
        int, typer.Option("--partitions", min=0, max=MOST, help="Of a new topic; 0: the server's default.")
    ] = 0,
    copy: Annotated[
        bool,
        typer.Option("--copy/--no-copy", help="Copy key, value and headers of the record to the letter."),
    ] = True,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Give a group a dead letter topic: create it unless it exists, and set the configs of both.

    Without a copy, a letter can be redriven only while its source topic has the record.
    """
    name = topic or f"dlq.{group}"
    with sharebroker.Admin(server) as admin:
        created = admin.enable_dead_letters(group, name, partitions, copy=copy)
    done = "Created topic" if created else "Set up the existing topic"
    result = {"group": group, "topic": name, "created": created, "copy": copy}
    print_done(result, as_json, f"{done} {name}; failed records of group {group} go to it from now on.")


def pause(seconds: float) -> None:
    """Waits, so that letters are redriven at the requested rate; Ctrl-C ends the wait."""
    threading.Event().wait(max(0.0, seconds))


class RedriveRun:
    """What the calls of one command have done.

    `limit` is the most letters, None for all. A call has the letters of at most one second at `rate`.
    """

    def __init__(self, token: str, limit: int | None, rate: float) -> None:
        self._limit = limit
        self._at_once = max(1, int(min(LETTERS_AT_ONCE, rate)))
        self._next_notice = LETTERS_PER_NOTICE
        self.token = token
        self.continues = True
        self.letters = self.failed = 0
        self.results: list[RedriveResult] = []
        """The first MOST_SHOWN results."""

    @property
    def most(self) -> int:
        """The most letters of the next call."""
        return self._at_once if self._limit is None else min(self._at_once, self._limit - self.letters)

    def add(self, page: RedrivePage) -> None:
        """Adds the outcome of a call."""
        self.token = page.next_page_token
        self.letters += len(page.results)
        self.failed += sum(result.error is not None for result in page.results)
        self.results += page.results[: MOST_SHOWN - len(self.results)]
        self.continues = bool(self.token) and self.most > 0

    def is_notice_due(self) -> bool:
        """Returns True once for each LETTERS_PER_NOTICE letters."""
        due = self.letters >= self._next_notice
        if due:
            self._next_notice = self.letters + LETTERS_PER_NOTICE
        return due


def _print_run(run: RedriveRun, *, as_json: bool, execute: bool) -> None:
    rows = [result_row(result) for result in run.results]
    if as_json:
        counts = {"letters": run.letters, "failed": run.failed, "next_page_token": run.token}
        print_json(counts | {"executed": execute, "results": rows})
        return
    print_rows(rows, _RESULTS, as_json, "There are no such dead letters.")
    if run.letters > len(rows):
        print_notice(f"The first {len(rows)} of {run.letters} letters are listed; {run.failed} failed.")
    if rows and not execute:
        print_notice("Nothing is changed. Add --execute to redrive these letters.")


def _filter(
    group: str,
    source: str,
    source_partition: int | None,
    disposition: str,
    reason: str,
    since: str,
    until: str,
) -> DeadLetterFilter:
    """Raises typer.BadParameter for an invalid value."""
    if disposition not in ("", *DISPOSITIONS):
        problem = f"{disposition!r} is not one of {', '.join(DISPOSITIONS)}."
        raise typer.BadParameter(problem, param_hint="--disposition")
    first, last = (
        parse_time(time, option).timestamp() if time else None
        for time, option in ((since, "--since"), (until, "--until"))
    )
    return DeadLetterFilter(group, source, source_partition, disposition, reason, first, last)


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Returns a letter as plain values."""
    failed = None if letter.failed is None else readable_time(letter.failed)
    return asdict(letter) | {"time": readable_time(letter.time), "failed": failed, "source": _source(letter)}


def count_row(count: DeadLetterCount) -> dict[str, Any]:
    """Returns a count as plain values."""
    return asdict(count) | {
        "reason": "(other reasons)" if count.other else count.reason,
        "oldest": readable_time(count.oldest),
        "newest": readable_time(count.newest),
        "example": f"{count.example_partition} {count.example_offset}",
    }


def result_row(result: RedriveResult) -> dict[str, Any]:
    """Returns the outcome of a letter as plain values."""
    letter, error = result.letter, result.error
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "group_id": letter.group_id,
        "source": _source(letter),
        "target": f"{result.target_topic}/{result.target_partition}" if result.target_topic else None,
        "copy_offset": result.copy_offset,
        "error": None if error is None else f"{error.code.name}: {error.message}",
    }


def _source(letter: DeadLetter) -> str:
    return f"{letter.source_topic}/{letter.source_partition}/{letter.source_offset}"
