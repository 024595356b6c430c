"""The append-only files of an embedded Valkey: which of them are the data, and a consistent view of them.

Valkey writes a base file and one or more files of commands, and lists them in a manifest. It only appends to
the newest file. Every file that is open keeps its content when a rewrite deletes it. So a prefix of the
newest file, with all files before it, is the data at one moment, while Valkey continues to write.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from sharebroker_server.redis_link.port import EmbeddedRedisFailed

APPEND_ONLY: Final = "appendonlydir"
"""The folder of the append-only files in the folder of the embedded Valkey."""

MANIFEST: Final = "appendonly.aof.manifest"

_LINE: Final = re.compile(
    r"file (appendonly\.aof\.\d+\.(?:base\.rdb|base\.aof|incr\.aof)) seq \d+ type ([bhi])"
)
_HISTORY: Final = "h"
_ATTEMPTS: Final = 100
"""Rewrites that may happen while the files are opened, which takes less than a millisecond."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open for reading, and the number of its bytes that are read."""

    name: str
    content: BinaryIO
    size: int

    @classmethod
    def in_memory(cls, name: str, content: bytes) -> OpenFile:
        """Returns a file whose bytes are in memory."""
        return cls(name, io.BytesIO(content), len(content))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The lines of a manifest whose files are the data; files of earlier generations are left out."""

    lines: Sequence[str]
    names: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Reads a manifest. Raises EmbeddedRedisFailed."""
        lines, names = [], []
        for line in text.splitlines():
            match = _LINE.match(line)
            if match is None:
                raise EmbeddedRedisFailed(
                    f"the manifest of the append-only file has an invalid line: {line!r}"
                )
            if match[2] != _HISTORY:
                lines.append(line)
                names.append(match[1])
        if not names:
            raise EmbeddedRedisFailed("the manifest of the append-only file names no file")
        return cls(lines, names)

    def __str__(self) -> str:
        """Returns the text for a manifest file."""
        return "".join(f"{line}\n" for line in self.lines)


@contextmanager
def open_append_only(folder: Path) -> Iterator[tuple[Manifest, list[OpenFile]]]:
    """Opens the files that are the data now, in their order; `folder` is the embedded Valkey's.

    Raises EmbeddedRedisFailed if there are none, or if they cannot be read.
    """
    with ExitStack() as stack:
        try:
            found = _opened(folder / APPEND_ONLY, stack)
        except FileNotFoundError as error:
            raise EmbeddedRedisFailed(f"{folder} has no data of an embedded Valkey") from error
        except OSError as error:
            raise EmbeddedRedisFailed(f"{error.filename} cannot be read: {error.strerror}") from error
        yield found


def _opened(folder: Path, stack: ExitStack) -> tuple[Manifest, list[OpenFile]]:
    """Opens the files of one manifest. Raises EmbeddedRedisFailed, OSError."""
    path = folder / MANIFEST
    for _ in range(_ATTEMPTS):
        text = path.read_text()
        manifest = Manifest.parse(text)
        attempt = ExitStack()
        try:
            files = [_open(folder, name, attempt) for name in manifest.names]
        except FileNotFoundError:  # a rewrite deleted it
            attempt.close()
            continue
        # The sizes belong together only if no rewrite began or ended while they were read.
        if path.read_text() == text:
            stack.push(attempt.pop_all())
            return manifest, files
        attempt.close()
    raise EmbeddedRedisFailed(f"{path} names files that do not exist")


def _open(folder: Path, name: str, stack: ExitStack) -> OpenFile:
    content = stack.enter_context((folder / name).open("rb"))
    return OpenFile(name, content, os.fstat(content.fileno()).st_size)
