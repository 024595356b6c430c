"""What `sharebroker backup` and `restore` share: progress on standard error, errors, the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sharebroker.cli.output import FAILED, print_done, print_failure, readable_time, stderr
from sharebroker_server.broker.backup import Begin
from sharebroker_server.broker.core.backup_contents import BackupContents, BackupError
from sharebroker_server.redis_link.port import RedisError

Copy = Callable[[Begin], Coroutine[Any, Any, BackupContents]]


def run_copy(copy: Copy, command: str, done: str, as_json: bool) -> None:
    """Runs a copy with progress on standard error, and prints its result after the sentence `done`.

    Exits with 1 and a sentence if it fails.
    """
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=stderr(), disable=as_json) as progress:

            def begin(size: int) -> Callable[[int], None]:
                return partial(progress.advance, progress.add_task("", total=size))

            contents = asyncio.run(copy(begin))
    except (BackupError, RedisError) as error:
        print_failure(error, as_json, command, str(error))
        raise typer.Exit(FAILED) from None
    result = {"files": len(contents.files), "bytes": contents.size, "taken_at": contents.taken_at}
    moment = readable_time(contents.taken_at)
    print_done(
        result, as_json, f"{done} {contents.size:,} bytes in {len(contents.files)} files, as of {moment}."
    )
