"""`sharebroker work`: runs a command for each record."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from contextlib import suppress
from typing import Annotated, Final

import typer

from sharebroker import (
    ConsumerConfig,
    ErrorCode,
    KafkaError,
    MaxFailuresError,
    Record,
    Reject,
    Retry,
    WorkerConfig,
)
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, InGroup, Server, Timeout, Topic
from sharebroker.cli.output import UNFINISHED, print_json, print_notice
from sharebroker.cli.session import FromBeginning, environment, prepare, traced
from sharebroker.cli.work_report import WorkReport
from sharebroker_protocol.records.record import MAX_DELAY

REJECT_CODE: Final = 65
"""EX_DATAERR of sysexits.h: the input data was incorrect."""

_CODES: Final = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")
_TERMINATION_TIMEOUT: Final = 5.0
"""Seconds that a command has to end after SIGTERM."""

EXAMPLES: Final = (
    "sharebroker work orders --group billing --workers 4 -- ./bill.sh",
    "sharebroker work orders --group billing --reject-codes 65,100-109 --backoff 5 -- ./bill.sh",
    "sharebroker work pictures --group thumbs -- sh -c 'convert - $SHAREBROKER_OFFSET.png || exit 65'",
    "sharebroker work orders --group copy --from-beginning --timeout 5 -- tee -a orders.txt",
)


def parse_codes(text: str) -> frozenset[int]:
    """Parses exit codes and ranges of them: "65", "65,100-109", "none". Raises typer.BadParameter."""
    codes: set[int] = set()
    for part in [] if text.strip() == "none" else text.split(","):
        found = _CODES.fullmatch(part.strip())
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= low <= high <= 255:
            text = f"{part!r} is neither an exit code from 1 to 255 nor a range of them such as 100-109."
            raise typer.BadParameter(text, param_hint="--reject-codes")
        codes.update(range(low, high + 1))
    return frozenset(codes)


def parse_backoff(text: str) -> float | None:
    """Parses a delay in seconds; "group" is None. Raises typer.BadParameter."""
    if text.strip() == "group":
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_DELAY:
        problem = f"{text!r} is neither a number of seconds from 0 to {MAX_DELAY:.0f} nor 'group'."
        raise typer.BadParameter(problem, param_hint="--backoff")
    return seconds


def parse_lock(seconds: float) -> int:
    """Returns the length of a lock in milliseconds; 0: the group's. Raises typer.BadParameter."""
    if 0 < seconds < 1:
        raise typer.BadParameter(f"{seconds:g} is neither 0 nor at least 1 second.", param_hint="--lock")
    return round(seconds * 1000)


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
    reject_codes: Annotated[
        str,
        typer.Option(
            "--reject-codes", metavar="CODES", help="Exit codes that reject, such as 65,100-109; or none."
        ),
    ] = str(REJECT_CODE),
    backoff: Annotated[
        str,
        typer.Option(
            "--backoff",
            metavar="SECONDS",
            help="Delay after a record's first failure, which doubles with each delivery; or group: that of "
            "share.retry.backoff.ms.",
        ),
    ] = "1",
    backoff_max: Annotated[
        float,
        typer.Option("--backoff-max", min=0, max=86400, metavar="SECONDS", help="The longest such delay."),
    ] = 100.0,
    lock: Annotated[
        float,
        typer.Option(
            "--lock",
            min=0,
            max=86400,
            metavar="SECONDS",
            help="Length of a record's lock, from 1 second; 0: the group's share.record.lock.duration.ms.",
        ),
    ] = 0.0,
    max_failures: Annotated[
        int,
        typer.Option("--max-failures", min=0, help="Stop after so many consecutive failures; 0: never."),
    ] = 20,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            min=0,
            metavar="SECONDS",
            help="Time that running commands have after Ctrl-C or SIGTERM. Default: no limit.",
        ),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="Dead letter topic of the group, such as dlq.billing: created unless it exists, with "
            "copies of the records. Default: the group's settings stay.",
        ),
    ] = None,
    timeout: Timeout = None,
    from_beginning: FromBeginning = False,
    auto_offset_reset: Annotated[
        str | None,
        typer.Option(
            "--auto-offset-reset",
            metavar="START",
            help="Where a group without a start offset starts: latest, earliest, by_duration:PnDTnHnMn.nS "
            "(sets the group's share.auto.offset.reset).",
        ),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Run CMD for each record, with the payload on its standard input and the position in its environment.

    Exit code 0 accepts the record, and a code of --reject-codes rejects it. Any other exit code, and a signal
    that ends CMD, releases the record: it is delivered again after --backoff, or archived if it has reached
    the group's share.delivery.count.limit. The lock is renewed while CMD runs.

    Ctrl-C or SIGTERM lets running commands finish and releases the other records. A second one, or the end of
    --grace, terminates the commands and releases their records.

    CMD's environment has SHAREBROKER_TOPIC, SHAREBROKER_PARTITION, SHAREBROKER_OFFSET, SHAREBROKER_KEY and
    SHAREBROKER_DELIVERY_COUNT, and TRACEPARENT if OpenTelemetry's variables enable tracing.

    Exits with 3 if a record was rejected, archived or left unfinished: released or not confirmed, and not
    accepted later in this run.
    """
    if shutil.which(command[0]) is None:
        raise typer.BadParameter(f"There is no executable file {command[0]!r}.", param_hint="CMD")
    codes, first_delay, lock_ms = parse_codes(reject_codes), parse_backoff(backoff), parse_lock(lock)
    if from_beginning and auto_offset_reset is not None:
        raise typer.BadParameter("--from-beginning and --auto-offset-reset exclude each other.")
    prepare(server, group, topic, from_beginning, auto_offset_reset)
    limit = delivery_limit(server, group)
    runner, report = CommandRunner(command, codes, limit), WorkReport(limit)
    config = WorkerConfig(
        concurrency=workers,
        backoff=first_delay,
        backoff_max=backoff_max,
        max_failures=max_failures,
        idle_timeout=timeout,
        graceful_shutdown_timeout=grace,
        dead_letter_topic=dead_letters,
        consumer=ConsumerConfig(
            client_id="sharebroker-cli", lock_ms=lock_ms, auto_offset_reset=auto_offset_reset
        ),
        on_success=report.accepted,
        on_failure=report.failed,
        on_unconfirmed=report.unconfirmed,
    )
    try:
        with traced():
            from sharebroker import Worker

            Worker(server, group, [topic], runner.handle, config).run()
    except MaxFailuresError as error:
        print_notice(str(error))
    finally:
        if as_json:
            print_json(report.document())
        else:
            print_notice(report.text())
    if report.incomplete:
        raise typer.Exit(UNFINISHED)


def delivery_limit(server: str, group: str) -> int | None:
    """Returns the delivery limit of released records; None without one, or without the right to read it."""
    from sharebroker import Admin

    with Admin(server) as admin:
        try:
            configs = {config.name: config.value for config in admin.group_configs(group)}
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
                return None
            raise
    if configs.get("share.delivery.count.on") == "failure":
        return None
    return int(configs["share.delivery.count.limit"])


class CommandRunner:
    """Runs the command for a record and raises Reject or Retry by its exit code.

    `delivery_limit` is the delivery count at which the server archives a released record; None: not known.
    """

    def __init__(self, command: list[str], reject_codes: frozenset[int], delivery_limit: int | None) -> None:
        self._command = command
        self._reject_codes = reject_codes
        self._delivery_limit = delivery_limit

    async def handle(self, record: Record) -> None:
        """Runs the command; a cancelled call terminates it."""
        try:
            exit_code = await self._execute(record)
        except OSError as error:
            text = f"the command cannot be started: {error.strerror or error}"
            raise self._retry(record, text) from error
        if exit_code in self._reject_codes:
            raise Reject(f"exit code {exit_code}")
        if exit_code != 0:
            raise self._retry(record, describe(exit_code))

    def _retry(self, record: Record, reason: str) -> Retry:
        """Returns a failure with the backoff, but without a delay if there is no further delivery."""
        is_last = self._delivery_limit is not None and record.delivery_count >= self._delivery_limit
        return Retry(0.0 if is_last else None, reason)

    async def _execute(self, record: Record) -> int:
        # A new session: Ctrl-C in the terminal reaches this process only.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            env=environment(record),
            start_new_session=True,
        )
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # the command need not read its input
                await process.communicate(record.value or b"")
            return await process.wait()
        except asyncio.CancelledError:
            await _terminate(process)
            raise


async def _terminate(process: asyncio.subprocess.Process) -> None:
    """Ends a command and its children: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_TERMINATION_TIMEOUT):
                await process.wait()
                return


def describe(exit_code: int) -> str:
    """Returns an exit code as text; a negative one is a signal."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
