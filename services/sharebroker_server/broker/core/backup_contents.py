"""The list of the files of a backup with their checksums, which is stored with it as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

VERSION: Final = 1
"""The version of the list that this release writes, and the only one that it reads."""

_NAME: Final = re.compile(r"(node|format)\.json|valkey/appendonlydir/appendonly\.aof\.[a-z0-9.]+")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class BackupError(Exception):
    """A backup cannot be written or restored; the text is a sentence for operators."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A file by its name relative to the data folder, its size in bytes, and its checksum in hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupContents:
    """The files of a backup, the release that wrote it, and the time of its data in Unix seconds."""

    files: Sequence[BackupFile]
    release: str
    taken_at: float

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(file.size for file in self.files)

    def to_json(self) -> bytes:
        """Returns the stored form."""
        return orjson.dumps({"version": VERSION, **asdict(self)}, option=orjson.OPT_INDENT_2)

    @classmethod
    def parse(cls, data: bytes) -> BackupContents:
        """Reads the stored form. Raises BackupError."""
        try:
            fields = orjson.loads(data)
            version = fields["version"]
            if version != VERSION:
                raise BackupError(
                    f"The backup has version {version}, written by release {fields['release']}. "
                    f"This release reads version {VERSION}."
                )
            files = [_file(each) for each in fields["files"]]
            return cls(files, str(fields["release"]), float(fields["taken_at"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BackupError("The list of the files of the backup is damaged.") from error


def _file(fields: dict[str, Any]) -> BackupFile:
    """Reads one entry. Raises ValueError, KeyError, TypeError."""
    name, size, sha256 = fields["name"], fields["size"], fields["sha256"]
    if not _NAME.fullmatch(name) or ".." in name or type(size) is not int or size < 0:
        raise ValueError(name)
    if not _SHA256.fullmatch(sha256):
        raise ValueError(sha256)
    return BackupFile(name, size, sha256)
