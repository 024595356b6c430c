"""`sharebroker work`: runs a command for each record."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Annotated, Final

import typer

from sharebroker.aio.consumer import ShareConsumer
from sharebroker.cli.failures import FAILED
from sharebroker.cli.group_session import FromBeginning, on_interrupt, prepare
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, InGroup, Server, Topic
from sharebroker.cli.output import print_json, say
from sharebroker.cli.records import environment, place
from sharebroker.cli.tracing import traced
from sharebroker.client_errors import WakeupError
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.records.record import AcknowledgeType, Record

RELEASE_CODE: Final = 75
"""EX_TEMPFAIL: the command could not do it now."""

EXAMPLES: Final = (
    "sharebroker work orders --group billing --workers 4 -- ./bill.sh",
    "sharebroker work pictures --group thumbs -- sh -c 'convert - $SHAREBROKER_OFFSET.png'",
    "sharebroker work orders --group copy --from-beginning --timeout 5 -- tee -a orders.txt",
)


def work(
    topic: Topic,
    group: InGroup,
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", help="What to run for each record, and its arguments.")
    ],
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, max=1000, help="How many run at a time.")
    ] = 1,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, help="Stop when nothing has come for so many seconds."),
    ] = None,
    from_beginning: FromBeginning = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Run CMD for each record: the payload on its standard input, where it is from in its environment.

    Exit code 0 accepts the record, 75 releases it for another try, any other rejects it. Its lock is renewed
    while CMD runs. Ctrl-C lets running commands finish and releases the rest. The environment of CMD has
    SHAREBROKER_TOPIC, SHAREBROKER_PARTITION, SHAREBROKER_OFFSET, SHAREBROKER_KEY and
    SHAREBROKER_DELIVERY_COUNT; and TRACEPARENT, where OpenTelemetry's variables have this command trace.
    """
    if shutil.which(command[0]) is None:
        raise typer.BadParameter(f"There is no command {command[0]!r}.", param_hint="CMD")
    prepare(server, group, topic, from_beginning)
    config = ConsumerConfig(
        client_id="sharebroker-cli",
        share_acquire_mode="record_limit",
        max_poll_records=1,
        prefetch_records=workers,
        auto_renew=True,
    )
    crew = WorkerPool(command, workers, timeout)
    with traced():
        asyncio.run(crew.run(lambda: ShareConsumer(server, group, [topic], config)))
    if as_json:
        print_json(crew.counts)
    else:
        say(", ".join(f"{what} {count}" for what, count in crew.counts.items()).capitalize() + ".")
    if crew.counts["refused"]:
        raise typer.Exit(FAILED)


def verdict(exit_code: int) -> AcknowledgeType:
    """What a command's exit code says of its record."""
    if exit_code == 0:
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.RELEASE if exit_code == RELEASE_CODE else AcknowledgeType.REJECT


class WorkerPool:
    """Runs a command for each record, some at a time; `counts` tells how the records fared."""

    def __init__(self, command: Sequence[str], workers: int, timeout: float | None) -> None:
        self._command = command
        self._slots = asyncio.Semaphore(workers)
        self._timeout = timeout
        self._stopping = False
        self.counts = Counter(dict.fromkeys(("accepted", "released", "rejected", "refused"), 0))

    async def run(self, join: Callable[[], ShareConsumer]) -> None:
        """Until the user stops it, or nothing comes for the time-out."""
        async with join() as consumer:

            def stop() -> None:
                self._stopping = True
                consumer.wakeup()

            with on_interrupt(stop):
                async with asyncio.TaskGroup() as running:
                    with suppress(WakeupError):
                        await self._hand_out(consumer, running)

    async def _hand_out(self, consumer: ShareConsumer, running: asyncio.TaskGroup) -> None:
        records = aiter(consumer)
        while True:
            await self._slots.acquire()
            if self._stopping:
                return
            try:
                async with asyncio.timeout(self._timeout):
                    record = await anext(records)
            except TimeoutError:
                return
            running.create_task(self._handle(record, consumer.processing(record)))

    async def _handle(self, record: Record, processing: AbstractContextManager[None]) -> None:
        try:
            with processing:
                exit_code = await self._execute(record)
                kind = verdict(exit_code)
                said = record.acquisition.sink.acknowledge(record, kind)
            await said
            self.counts[_DONE[kind]] += 1
        except KafkaError as error:
            self.counts["refused"] += 1
            say(f"{place(record)}: {error.message}")
        finally:
            self._slots.release()

    async def _execute(self, record: Record) -> int:
        # A session of its own: Ctrl-C in the terminal is ours to act on.
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, env=os.environ | environment(record), start_new_session=True
        )
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read its input
            await process.communicate(record.value or b"")
        return await process.wait()


_DONE: Final = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}
