"""`sharebroker consume`: prints records and acknowledges them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sharebroker import AcknowledgeType, ConsumerConfig, Record, WakeupError, aio
from sharebroker.aio.signals import on_interrupt
from sharebroker.cli.line_format import Form, printer
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, InGroup, Server, Timeout, Topic
from sharebroker.cli.output import FAILED, print_notice
from sharebroker.cli.session import FromBeginning, place, prepare

if TYPE_CHECKING:
    from sharebroker.aio import ShareConsumer

_NO_TIMEOUT: Final = 3600.0
_MAX_POLL_RECORDS: Final = 500
_KEYS: Final = {
    "a": AcknowledgeType.ACCEPT,
    "r": AcknowledgeType.RELEASE,
    "j": AcknowledgeType.REJECT,
}
EXAMPLES: Final = (
    "sharebroker consume orders --group billing",
    "sharebroker consume orders --group look --from-beginning --max 10 --json",
    "sharebroker consume orders --group look --format '{time} {key}: {value}'",
    "sharebroker consume orders --group billing --ask",
    "sharebroker consume orders --group billing --release --max 1 --timeout 5",
)


class Action(StrEnum):
    """What happens to every record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    ASK = "ask"


def consume(
    topic: Topic,
    group: InGroup,
    limit: Annotated[
        int | None, typer.Option("--max", min=1, help="Stop after this many records.", show_default=False)
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept every record (default).")] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Release every record for another delivery.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Reject every record: it is archived and not delivered again.")
    ] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Prompt for the action on each record.")] = False,
    timeout: Timeout = None,
    from_beginning: FromBeginning = False,
    form: Form = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Print the records of a topic, one per line, and acknowledge each.

    Ctrl-C stops and releases the records that are not acknowledged.
    """
    chosen = {Action.ACCEPT: accept, Action.RELEASE: release, Action.REJECT: reject, Action.ASK: ask}
    actions = [action for action, is_chosen in chosen.items() if is_chosen] or [Action.ACCEPT]
    if len(actions) > 1:
        raise typer.BadParameter(f"--{actions[0]} and --{actions[1]} exclude each other.")
    if form is not None and as_json:
        raise typer.BadParameter("--format and --json exclude each other.")
    prepare(server, group, topic, from_beginning)
    max_poll_records = min(limit or _MAX_POLL_RECORDS, _MAX_POLL_RECORDS, 1 if ask else _MAX_POLL_RECORDS)
    config = ConsumerConfig(
        client_id="sharebroker-cli",
        share_acquire_mode="record_limit" if limit or ask else "batch_optimized",
        max_poll_records=max_poll_records,
        prefetch_records=0 if limit or ask else max_poll_records,
        auto_renew=ask,
    )
    session = ConsumeCommand(actions[0], printer(form, as_json), limit, timeout)
    asyncio.run(session.run(lambda: aio.ShareConsumer(server, group, [topic], config)))
    if session.failed:
        raise typer.Exit(FAILED)


class ConsumeCommand:
    """One run of the command; `failed` counts acknowledgements that were rejected."""

    def __init__(
        self, action: Action, line: Callable[[Record], bytes], limit: int | None, timeout: float | None
    ) -> None:
        self._action = action
        self._line = line
        self._remaining = limit
        self._timeout = timeout
        self._counts: Counter[str] = Counter()
        self.failed = 0

    async def run(self, join: Callable[[], ShareConsumer]) -> None:
        """Runs until the limit, the timeout or the user ends it."""
        async with join() as consumer:
            with on_interrupt(consumer.wakeup):
                try:
                    while await self._poll_once(consumer):
                        pass
                except WakeupError:
                    pass
                await self._confirm(consumer)
        self._report()

    async def _poll_once(self, consumer: ShareConsumer) -> bool:
        """Polls and acknowledges once; returns whether to continue."""
        records = await consumer.poll(_NO_TIMEOUT if self._timeout is None else self._timeout)
        for record in records[: self._remaining]:
            if not await self._handle(record):
                return False
        await self._confirm(consumer)
        if not records:
            return self._timeout is None
        if self._remaining is not None:
            self._remaining -= len(records)
        return self._remaining is None or self._remaining > 0

    async def _handle(self, record: Record) -> bool:
        """Prints and acknowledges a record; returns False if the user wants to stop."""
        _print(self._line(record))
        if self._action is Action.ASK:
            kind = await _prompt(record)
            if kind is None:
                return False
        else:
            kind = AcknowledgeType[self._action.name]
        record.acquisition.sink.acknowledge(record, kind)
        return True

    async def _confirm(self, consumer: ShareConsumer) -> None:
        for result in await consumer.commit():
            if result.error is None:
                self._counts[result.kind.name.lower()] += 1
            else:
                self.failed += 1
                where = f"{result.topic}, partition {result.partition}, offset {result.offset}"
                print_notice(f"{where}: not {result.kind.name.lower()}ed: {result.error.message}")

    def _report(self) -> None:
        participles = {"accept": "accepted", "release": "released", "reject": "rejected"}
        counts = [f"{participles[name]} {count}" for name, count in self._counts.items()]
        print_notice(", ".join(counts).capitalize() + "." if counts else "No records arrived.")


def _print(line: bytes) -> None:
    """Prints one line and flushes it, so that no accepted record is lost in a buffer."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


async def _prompt(record: Record) -> AcknowledgeType | None:
    prompt = f"{place(record)}, delivery {record.delivery_count}: [a]ccept, [r]elease, re[j]ect, [q]uit? "
    while True:
        try:
            answer = await asyncio.to_thread(typer.prompt, prompt, prompt_suffix="", err=True)
        except typer.Abort:
            return None
        if answer[:1].lower() == "q":
            return None
        if answer[:1].lower() in _KEYS:
            return _KEYS[answer[:1].lower()]
