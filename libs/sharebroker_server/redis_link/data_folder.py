"""Permissions of a data folder: only the user who runs the broker can read what it stores."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from sharebroker_server.redis_link.port import EmbeddedRedisFailed

_log = structlog.get_logger()

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
UMASK: Final = 0o077
"""File mode creation mask of processes that write into the folder."""


def make_private(folder: Path, names: Sequence[str] | None = None) -> None:
    """Creates the folder with mode 0700, or removes the access of other users to an existing one.

    Files get mode 0600, folders 0700, recursively; `names` restricts this to some entries of the folder, and
    symbolic links are not followed.

    Raises:
        EmbeddedRedisFailed: the folder cannot be created, belongs to another user, or is shared (sticky).
    """
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        _check_owner(folder)
        entries = folder.iterdir() if names is None else (folder / name for name in names)
        tightened = [path for path in (folder, *_below(entries)) if _tighten(path)]
    except OSError as error:
        raise EmbeddedRedisFailed(f"{folder} cannot be used: {error.strerror}") from error
    if tightened:
        _log.warning(
            "data folder was accessible to other users; access removed",
            folder=str(folder),
            paths=len(tightened),
        )


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file atomically and durably; only its owner can read it. Raises OSError."""
    fresh = path.with_suffix(".new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def flush_folder(folder: Path) -> None:
    """Writes the entries of a folder to the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_to(path: Path) -> BinaryIO:
    """Opens a file to append to it; creates it with mode 0600. Raises OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE), "ab")


def _check_owner(folder: Path) -> None:
    """Raises EmbeddedRedisFailed unless the folder belongs to this user alone. Raises OSError."""
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise EmbeddedRedisFailed(
            f"{folder} belongs to the user {_user(status.st_uid)}: run as this user, "
            f"or make {_user(os.geteuid())} its owner"
        )
    if status.st_mode & stat.S_ISVTX:
        raise EmbeddedRedisFailed(f"{folder} is shared by all users: name a folder below it")


def _user(uid: int) -> str:
    """Returns the name of a user, or the number of a user without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _below(entries: Iterable[Path]) -> Iterator[Path]:
    """Returns the existing entries and all that they contain."""
    for entry in entries:
        if entry.is_symlink() or not entry.exists():
            continue
        yield entry
        if entry.is_dir():
            yield from _below(entry.iterdir())


def _tighten(path: Path) -> bool:
    """Removes the access of other users; returns whether there was any. Raises OSError."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & UMASK:
        return False
    path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
    return True
