"""What the commands that copy data share: progress on standard error, errors, the result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sharebroker.cli.output import FAILED, amount, print_done, print_failure, readable_time, stderr
from sharebroker_protocol.errors import KafkaError

if TYPE_CHECKING:
    from sharebroker_server.broker.backup import Begin
    from sharebroker_server.broker.core.backup_contents import BackupContents

T = TypeVar("T")

BYTES: Final = (DownloadColumn, TransferSpeedColumn)
"""Progress in bytes."""

OFFSETS: Final = (MofNCompleteColumn,)
"""Progress in offsets of logs."""

_FULL: Final = (
    "The memory of Redis is used up. Raise --max-memory, of your own Redis maxmemory, and repeat the command."
)


class Done(NamedTuple):
    """The result of a command, for scripts and as a sentence."""

    fields: Mapping[str, Any]
    sentence: str


def run_copy(
    copy: Callable[[Begin], Coroutine[Any, Any, T]],
    command: str,
    describe: Callable[[T], Done],
    as_json: bool,
    units: tuple[type[ProgressColumn], ...] = BYTES,
) -> None:
    """Runs a copy with progress on standard error, and prints its result.

    Exits with 1 and a sentence if it fails. A copy that was interrupted continues when it is repeated.
    """
    # The help of the commands needs none of these modules.
    import asyncio

    from sharebroker_server.broker.core.archive_contents import ArchiveError
    from sharebroker_server.broker.core.backup_contents import BackupError
    from sharebroker_server.broker.logs import WarningsOnStderr
    from sharebroker_server.leases.port import LeasesUnavailable
    from sharebroker_server.redis_link.port import RedisError
    from sharebroker_server.stream_log.port import LogError, LogFull

    columns = (BarColumn(), TaskProgressColumn(), *(unit() for unit in units), TimeRemainingColumn())
    try:
        with WarningsOnStderr(), Progress(*columns, console=stderr(), disable=as_json) as progress:

            def begin(size: int) -> Callable[[int], None]:
                return partial(progress.advance, progress.add_task("", total=size))

            result = asyncio.run(copy(begin))
    except (ArchiveError, BackupError, KafkaError, LeasesUnavailable, LogError, OSError, RedisError) as error:
        print_failure(error, as_json, command, _FULL if isinstance(error, LogFull) else _text(error))
        raise typer.Exit(FAILED) from None
    done = describe(result)
    print_done(dict(done.fields), as_json, done.sentence)


def copied(done: str, contents: BackupContents) -> Done:
    """Describes the copy of a data folder, after the word `done`."""
    moment = readable_time(contents.taken_at)
    return Done(
        {"files": len(contents.files), "bytes": contents.size, "taken_at": contents.taken_at},
        f"{done} {contents.size:,} bytes in {amount(len(contents.files), 'file')}, as of {moment}.",
    )


def _text(error: Exception) -> str | None:
    """Returns the sentence of our own errors; None lets the command line explain others."""
    return None if isinstance(error, KafkaError | OSError) else str(error)
