"""`sharebroker work`: runs a command for each record."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Annotated, Final

import typer

from sharebroker import AcknowledgeType, ConsumerConfig, KafkaError, Record, WakeupError
from sharebroker.aio import ShareConsumer
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, InGroup, Server, Timeout, Topic
from sharebroker.cli.output import FAILED, print_done, print_notice
from sharebroker.cli.session import FromBeginning, environment, on_interrupt, place, prepare, traced

RELEASE_CODE: Final = 75
"""EX_TEMPFAIL: a temporary failure of the command."""

EXAMPLES: Final = (
    "sharebroker work orders --group billing --workers 4 -- ./bill.sh",
    "sharebroker work pictures --group thumbs -- sh -c 'convert - $SHAREBROKER_OFFSET.png'",
    "sharebroker work orders --group copy --from-beginning --timeout 5 -- tee -a orders.txt",
)


def work(
    topic: Topic,
    group: InGroup,
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- CMD...", help="The command to run for each record, with its arguments."),
    ],
    workers: Annotated[
        int,
        typer.Option("--workers", "-n", min=1, max=1000, help="The number of commands that run at a time."),
    ] = 1,
    timeout: Timeout = None,
    from_beginning: FromBeginning = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Run CMD for each record, with the payload on its standard input and the position in its environment.

    Exit code 0 accepts the record, 75 releases it for another delivery, any other rejects it. The lock is
    renewed while CMD runs. Ctrl-C lets running commands finish and releases the other records. CMD's
    environment has SHAREBROKER_TOPIC, SHAREBROKER_PARTITION, SHAREBROKER_OFFSET, SHAREBROKER_KEY and
    SHAREBROKER_DELIVERY_COUNT, and TRACEPARENT if OpenTelemetry's variables enable tracing.
    """
    if shutil.which(command[0]) is None:
        raise typer.BadParameter(f"Command {command[0]!r} was not found.", param_hint="CMD")
    prepare(server, group, topic, from_beginning)
    config = ConsumerConfig(
        client_id="sharebroker-cli",
        share_acquire_mode="record_limit",
        max_poll_records=1,
        prefetch_records=workers,
        auto_renew=True,
    )
    pool = WorkerPool(command, workers, timeout)
    with traced():
        asyncio.run(pool.run(lambda: ShareConsumer(server, group, [topic], config)))
    counts = ", ".join(f"{outcome} {count}" for outcome, count in pool.counts.items())
    print_done(pool.counts, as_json, f"{counts.capitalize()}.")
    if pool.counts["refused"]:
        raise typer.Exit(FAILED)


def verdict(exit_code: int) -> AcknowledgeType:
    """Returns the acknowledge type for a command's exit code."""
    if exit_code == 0:
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.RELEASE if exit_code == RELEASE_CODE else AcknowledgeType.REJECT


class WorkerPool:
    """Runs commands, at most `workers` at a time; `counts` has the outcomes of their records."""

    def __init__(self, command: Sequence[str], workers: int, timeout: float | None) -> None:
        self._command = command
        self._slots = asyncio.Semaphore(workers)
        self._timeout = timeout
        self._stopping = False
        self.counts = Counter(dict.fromkeys(("accepted", "released", "rejected", "refused"), 0))

    async def run(self, join: Callable[[], ShareConsumer]) -> None:
        """Runs until the user stops it, or no record arrives within the timeout."""
        async with join() as consumer:

            def stop() -> None:
                self._stopping = True
                consumer.wakeup()

            with on_interrupt(stop):
                async with asyncio.TaskGroup() as running:
                    with suppress(WakeupError):
                        await self._dispatch(consumer, running)

    async def _dispatch(self, consumer: ShareConsumer, running: asyncio.TaskGroup) -> None:
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
                acknowledgement = record.acquisition.sink.acknowledge(record, kind)
            await acknowledgement
            self.counts[_DONE[kind]] += 1
        except KafkaError as error:
            self.counts["refused"] += 1
            print_notice(f"{place(record)}: {error.message}")
        finally:
            self._slots.release()

    async def _execute(self, record: Record) -> int:
        # A new session: Ctrl-C in the terminal reaches this process only.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            env=os.environ | environment(record),
            start_new_session=True,
        )
        with suppress(BrokenPipeError, ConnectionResetError):  # the command need not read its input
            await process.communicate(record.value or b"")
        return await process.wait()


_DONE: Final = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}
