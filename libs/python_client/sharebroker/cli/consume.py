"""`sharebroker consume`: prints records and answers for them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

import typer

from sharebroker.aio.consumer import ShareConsumer
from sharebroker.cli.failures import FAILED
from sharebroker.cli.group_session import FromBeginning, on_interrupt, prepare
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, InGroup, Server, Topic
from sharebroker.cli.output import say
from sharebroker.cli.records import document, place
from sharebroker.client_errors import WakeupError
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.records.record import AcknowledgeType, Record

_PATIENCE: Final = 3600.0
_MOST_AT_ONCE: Final = 500
_ANSWERS: Final = {
    "a": AcknowledgeType.ACCEPT,
    "r": AcknowledgeType.RELEASE,
    "j": AcknowledgeType.REJECT,
}
EXAMPLES: Final = (
    "sharebroker consume orders --group billing",
    "sharebroker consume orders --group look --from-beginning --max 10 --json",
    "sharebroker consume orders --group billing --ask",
    "sharebroker consume orders --group billing --release --max 1 --timeout 5",
)


class Answer(StrEnum):
    """What is said of every record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    ASK = "ask"


def consume(
    topic: Topic,
    group: InGroup,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Stop after this many records.", show_default=False)
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept every record (the default).")] = False,
    release: Annotated[bool, typer.Option("--release", help="Release every record for another try.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject every record for good.")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask for each record what to do.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, help="Stop when nothing has come for so many seconds."),
    ] = None,
    from_beginning: FromBeginning = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Print a topic's records, one a line, and answer for each; Ctrl-C releases what is not answered."""
    chosen = {Answer.ACCEPT: accept, Answer.RELEASE: release, Answer.REJECT: reject, Answer.ASK: ask}
    answers = [answer for answer, is_chosen in chosen.items() if is_chosen] or [Answer.ACCEPT]
    if len(answers) > 1:
        raise typer.BadParameter(f"--{answers[0]} and --{answers[1]} exclude each other.")
    prepare(server, group, topic, from_beginning)
    most_at_once = min(most or _MOST_AT_ONCE, _MOST_AT_ONCE, 1 if ask else _MOST_AT_ONCE)
    config = ConsumerConfig(
        client_id="sharebroker-cli",
        share_acquire_mode="record_limit" if most or ask else "batch_optimized",
        max_poll_records=most_at_once,
        prefetch_records=0 if most or ask else most_at_once,
        auto_renew=ask,
    )
    session = Session(answers[0], as_json, most, timeout)
    asyncio.run(session.run(lambda: ShareConsumer(server, group, [topic], config)))
    if session.failed:
        raise typer.Exit(FAILED)


class Session:
    """One run of the command; `failed` counts answers that were refused."""

    def __init__(self, answer: Answer, as_json: bool, most: int | None, timeout: float | None) -> None:
        self._answer = answer
        self._as_json = as_json
        self._left = most
        self._timeout = timeout
        self._counts: Counter[str] = Counter()
        self.failed = 0

    async def run(self, join: Callable[[], ShareConsumer]) -> None:
        """Until there is no more to do, or the user stops it."""
        async with join() as consumer:
            with on_interrupt(consumer.wakeup):
                try:
                    while await self._round(consumer):
                        pass
                except WakeupError:
                    pass
                await self._confirm(consumer)
        self._report()

    async def _round(self, consumer: ShareConsumer) -> bool:
        """One poll and its answers; whether there is to be another."""
        records = await consumer.poll(_PATIENCE if self._timeout is None else self._timeout)
        for record in records[: self._left]:
            if not await self._handle(record):
                return False
        await self._confirm(consumer)
        if not records:
            return self._timeout is None
        if self._left is not None:
            self._left -= len(records)
        return self._left is None or self._left > 0

    async def _handle(self, record: Record) -> bool:
        """Prints a record and answers for it; False when the user wants to stop."""
        _print(record, self._as_json)
        if self._answer is Answer.ASK:
            kind = await _ask(record)
            if kind is None:
                return False
        else:
            kind = AcknowledgeType[self._answer.name]
        record.acquisition.sink.acknowledge(record, kind)
        return True

    async def _confirm(self, consumer: ShareConsumer) -> None:
        for result in await consumer.commit():
            if result.error is None:
                self._counts[result.kind.name.lower()] += 1
            else:
                self.failed += 1
                where = f"{result.topic}, partition {result.partition}, offset {result.offset}"
                say(f"{where}: not {result.kind.name.lower()}ed: {result.error.message}")

    def _report(self) -> None:
        said = {"accept": "accepted", "release": "released", "reject": "rejected"}
        counts = [f"{said[name]} {count}" for name, count in self._counts.items()]
        say(", ".join(counts).capitalize() + "." if counts else "No records came.")


def _print(record: Record, as_json: bool) -> None:
    """One line; out before the record is answered for, so that nothing is lost in a buffer."""
    line = json.dumps(document(record), ensure_ascii=False).encode() if as_json else record.value or b""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


async def _ask(record: Record) -> AcknowledgeType | None:
    prompt = f"{place(record)}, delivery {record.delivery_count}: [a]ccept, [r]elease, re[j]ect, [q]uit? "
    while True:
        try:
            answer = await asyncio.to_thread(typer.prompt, prompt, prompt_suffix="", err=True)
        except typer.Abort:
            return None
        if answer[:1].lower() == "q":
            return None
        if answer[:1].lower() in _ANSWERS:
            return _ANSWERS[answer[:1].lower()]
