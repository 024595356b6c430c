"""The list of the files of a backup with their checksums, which is stored with it as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from sharebroker_server.broker.core.listed_files import ListedFile, check_version, count, sha256

VERSION: Final = 1
"""The version of the list that this release writes, and the only one that it reads."""

_NAME: Final = re.compile(r"(node|format)\.json|valkey/appendonlydir/appendonly\.aof\.[a-z0-9.]+")


class BackupError(Exception):
    """A backup cannot be written or restored; the text is a sentence for operators."""


@dataclass(frozen=True, slots=True)
class BackupContents:
    """The files of a backup, the release that wrote it, and the time of its data in Unix seconds."""

    files: Sequence[ListedFile]
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
            check_version(fields, VERSION, "backup", BackupError)
            files = [_file(each) for each in fields["files"]]
            return cls(files, str(fields["release"]), float(fields["taken_at"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BackupError("The list of the files of the backup is damaged.") from error


def _file(fields: dict[str, Any]) -> ListedFile:
    """Reads one entry. Raises ValueError, KeyError, TypeError."""
    name = fields["name"]
    if not _NAME.fullmatch(name) or ".." in name:
        raise ValueError(name)
    return ListedFile(name, count(fields["size"]), sha256(fields["sha256"]))
