"""The progress of reading input: with percentage and ETA if its size is known."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sharebroker.cli.reading import CountedLines


def size_of(opened: BinaryIO) -> int | None:
    """Returns the bytes of a regular file; None for a pipe, a terminal and a buffer in memory."""
    try:
        found = os.fstat(opened.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


@contextmanager
def progress(lines: CountedLines, size: int | None) -> Iterator[Callable[[int], None]]:
    """Shows the durable records if standard error is a terminal; of a file also percentage and ETA."""
    console = Console(stderr=True)
    with Progress(
        *progress_columns(size), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("publish", total=size or None, records=0)
        yield lambda confirmed: bars.update(task, completed=lines.read_bytes, records=confirmed)


def progress_columns(size: int | None) -> Sequence[ProgressColumn]:
    """Returns the columns for an input of `size` bytes; None is unknown."""
    counted = TextColumn("{task.fields[records]:,} records durable")
    if not size:
        return SpinnerColumn(), counted, TimeElapsedColumn()
    ends = TextColumn("ETA")
    return BarColumn(), TextColumn("{task.percentage:.0f}%"), counted, ends, TimeRemainingColumn()
