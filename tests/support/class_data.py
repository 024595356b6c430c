"""Class data archives of the JVM: a second start with the same class path loads its classes from one file.

A tool of Kafka starts with half the CPU time. The classes are the unmodified ones of the jars; the JVM
ignores an archive if a jar or the JDK has changed since.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def class_data(archive: Path) -> Iterator[list[str]]:
    """Provides the flags of a JVM that reads this archive.

    If it is missing, the JVM writes it at its end, unless another process does so at the moment. A JVM that
    is killed leaves no archive, if the block raises an exception.
    """
    quiet = "-Xlog:cds*=off"  # the JVM would print on standard output which classes it leaves out
    if archive.exists():
        yield ["-Xshare:auto", quiet, f"-XX:SharedArchiveFile={archive}"]
        return
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(archive.with_suffix(".lock").open("ab"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield ["-Xshare:auto"]
            return
        new = archive.with_suffix(f".{os.getpid()}")
        stack.callback(new.unlink, missing_ok=True)
        yield ["-Xshare:auto", quiet, f"-XX:ArchiveClassesAtExit={new}"]
        if new.exists():
            new.rename(archive)
