"""Backup of a data folder while its server runs, and restore into a new one (decision 0112).

Both copy files and compare checksums. A copy that was interrupted continues: bytes that are already in the
target are compared and not written again. A marker in the target exists until the copy is complete.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from sharebroker_protocol.clock import now
from sharebroker_server.broker.core.backup_contents import BackupContents, BackupError
from sharebroker_server.broker.core.listed_files import ListedFile
from sharebroker_server.broker.redis import FOLDER, OWN_FILES, RESTORE_MARKER
from sharebroker_server.redis_link.append_only import APPEND_ONLY, MANIFEST, OpenFile, open_append_only
from sharebroker_server.redis_link.data_folder import FILE_MODE, flush_folder, make_private, replace_file
from sharebroker_server.redis_link.directory_lock import DirectoryLock
from sharebroker_server.telemetry.process import release

CONTENTS: Final = "backup.json"
"""The list of the files; a backup with it is complete."""

BACKUP_MARKER: Final = "backup.unfinished"

_LOCK: Final = "lock"
_IGNORED: Final = frozenset({_LOCK, "lost+found"})
_CHUNK: Final = 4 << 20
"""Bytes that are written and flushed at a time. More would delay the flushes of a server on the same disk."""

_PASSES: Final = 2
"""Each byte is copied, and then read again from the copy."""

Begin = Callable[[int], Callable[[int], None]]
"""Receives the number of bytes to process; returns a function that receives the bytes of each step."""


async def take_backup(data: Path, target: Path, begin: Begin) -> BackupContents:
    """Writes a backup of a data folder into a new or empty folder, or continues an unfinished backup there.

    It has everything that the server had acknowledged at the start of the call. Raises BackupError,
    RedisError, OSError.
    """
    async with DirectoryLock(target):
        if (target / CONTENTS).exists():
            raise BackupError(f"{target} contains a complete backup. Name another folder.")
        _require_free(target, BACKUP_MARKER)
        with _sources(data) as sources:
            taken_at = now()
            _mark(target, BACKUP_MARKER)
            _remove_others(target / FOLDER / APPEND_ONLY, sources)
            advance = begin(_PASSES * sum(source.size for source in sources))
            files = [
                ListedFile(source.name, source.size, _copy(source, target / source.name, advance))
                for source in sources
            ]
        for file in files:
            _verify(target, file, advance)
        contents = BackupContents(files, release(), taken_at)
        replace_file(target / CONTENTS, contents.to_json())
        _unmark(target, BACKUP_MARKER)
        return contents


async def restore_backup(source: Path, data: Path, begin: Begin) -> BackupContents:
    """Copies a backup into a new or empty data folder, or continues an unfinished restore there.

    No server starts on the folder before the restore is complete. Raises BackupError, RedisError, OSError.
    """
    try:
        contents = BackupContents.parse((source / CONTENTS).read_bytes())
    except FileNotFoundError:
        raise BackupError(f"{source} contains no complete backup: {CONTENTS} is missing.") from None
    make_private(data, names=())
    async with DirectoryLock(data / FOLDER):
        _require_free(data, RESTORE_MARKER)
        _mark(data, RESTORE_MARKER)
        advance = begin(_PASSES * contents.size)
        for file in contents.files:
            _restore(source, data, file, advance)
        _unmark(data, RESTORE_MARKER)
        return contents


def _restore(source: Path, data: Path, file: ListedFile, advance: Callable[[int], None]) -> None:
    """Copies one file and verifies both sides. Raises BackupError, OSError."""
    try:
        with (source / file.name).open("rb") as content:
            if os.fstat(content.fileno()).st_size != file.size:
                raise _damaged(source, file)
            digest = _copy(OpenFile(file.name, content, file.size), data / file.name, advance)
    except FileNotFoundError:
        raise _damaged(source, file) from None
    if digest != file.sha256:
        raise _damaged(source, file)
    _verify(data, file, advance)


@contextmanager
def _sources(data: Path) -> Iterator[list[OpenFile]]:
    """Opens all that a backup contains, as of one moment.

    Raises BackupError, EmbeddedRedisFailed, OSError.
    """
    if (data / RESTORE_MARKER).exists():
        raise BackupError(f"{data} contains an unfinished restore.")
    folder = f"{FOLDER}/{APPEND_ONLY}"
    with open_append_only(data / FOLDER) as (manifest, files):
        sources = [OpenFile(f"{folder}/{file.name}", file.content, file.size) for file in files]
        sources.append(OpenFile.in_memory(f"{folder}/{MANIFEST}", str(manifest).encode()))
        for name in OWN_FILES:
            with suppress(FileNotFoundError):
                sources.append(OpenFile.in_memory(name, (data / name).read_bytes()))
        yield sources


def _require_free(folder: Path, marker: str) -> None:
    """Raises BackupError if a folder has files, and they are not those of an unfinished copy."""
    present = {path.name for path in folder.iterdir()} - _IGNORED
    if marker in present:
        return
    if present == {FOLDER} and not {path.name for path in (folder / FOLDER).iterdir()} - _IGNORED:
        return
    if present:
        raise BackupError(f"{folder} is not empty. Name a new or an empty folder.")


def _mark(folder: Path, marker: str) -> None:
    (folder / marker).touch(mode=FILE_MODE)
    flush_folder(folder)


def _unmark(folder: Path, marker: str) -> None:
    """Removes the marker after everything else is on the disk."""
    for path in (folder / FOLDER / APPEND_ONLY, folder / FOLDER, folder):
        flush_folder(path)
    (folder / marker).unlink()
    flush_folder(folder)


def _remove_others(folder: Path, sources: Sequence[OpenFile]) -> None:
    """Removes files of an interrupted copy that a rewrite has replaced since."""
    kept = {Path(source.name).name for source in sources}
    for path in folder.glob("appendonly.aof.*"):
        if path.name not in kept:
            path.unlink()


def _copy(source: OpenFile, path: Path, advance: Callable[[int], None]) -> str:
    """Copies a file, and returns the checksum of the source. Raises BackupError, OSError."""
    make_private(path.parent, names=())
    digest = hashlib.sha256()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "r+b", buffering=0) as target:
        position = 0
        for chunk in _chunks(source):
            digest.update(chunk)
            if os.pread(descriptor, len(chunk), position) != chunk:
                target.seek(position)
                _write(target, chunk)
            position += len(chunk)
            advance(len(chunk))
        target.truncate(source.size)
        os.fsync(descriptor)
    return digest.hexdigest()


def _write(target: BinaryIO, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[target.write(view) :]
    os.fdatasync(target.fileno())


def _chunks(source: OpenFile) -> Iterator[bytes]:
    """Reads a file up to its size. Raises BackupError if it is shorter."""
    left = source.size
    while left:
        chunk = source.content.read(min(left, _CHUNK))
        if not chunk:
            raise BackupError(f"{source.name} became shorter while it was read. Repeat the command.")
        left -= len(chunk)
        yield chunk


def _verify(folder: Path, file: ListedFile, advance: Callable[[int], None]) -> None:
    """Compares a copy with its checksum. Raises BackupError, OSError."""
    digest = hashlib.sha256()
    with (folder / file.name).open("rb") as content:
        for chunk in _chunks(OpenFile(file.name, content, file.size)):
            digest.update(chunk)
            advance(len(chunk))
    if digest.hexdigest() != file.sha256:
        raise _damaged(folder, file)


def _damaged(folder: Path, file: ListedFile) -> BackupError:
    return BackupError(f"{folder / file.name} is damaged: its size or its checksum is wrong.")
