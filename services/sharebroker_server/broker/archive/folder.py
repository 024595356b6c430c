"""The files of an archive: written once, flushed, and listed with their checksums.

A file exists under its name only when it is complete, so a repeated export continues after the last one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

import cramjam

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.core.archive_contents import (
    MANIFEST,
    METADATA,
    ArchiveContents,
    ArchivedPartition,
    ArchiveError,
    ExportJournal,
    Head,
    RecordsFile,
    entry_line,
    head_line,
    records_name,
)
from sharebroker_server.broker.core.listed_files import ListedFile
from sharebroker_server.record_log.core.batch import StoredBatch, header_of, stored_batches
from sharebroker_server.redis_link.data_folder import FILE_MODE, flush_folder, make_private, replace_file

UNFINISHED: Final = "export.unfinished"
"""The journal of an unfinished export."""

_LEVEL: Final = 1
"""The level of zstd: the fastest one that compresses."""

_LEFT_OVER: Final = frozenset({METADATA, "metadata.new", "export.new", "lock", "lost+found"})
"""What a folder may contain before the journal exists."""


class ArchiveFolder:
    """The folder of one archive."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def contents(self) -> ArchiveContents:
        """Returns the manifest. Raises ArchiveError, OSError."""
        try:
            return ArchiveContents.parse((self.path / MANIFEST).read_bytes())
        except FileNotFoundError:
            raise ArchiveError(f"{self.path} contains no complete archive: {MANIFEST} is missing.") from None

    def journal(self) -> ExportJournal | None:
        """Returns what an unfinished export has completed, or None in a new folder.

        Raises ArchiveError, OSError.
        """
        if (self.path / MANIFEST).exists():
            raise ArchiveError(f"{self.path} contains a complete archive. Name another folder.")
        try:
            return ExportJournal.parse((self.path / UNFINISHED).read_bytes())
        except FileNotFoundError:
            pass
        make_private(self.path, names=())
        if {path.name for path in self.path.iterdir()} - _LEFT_OVER:
            raise ArchiveError(f"{self.path} is not empty. Name a new or an empty folder.")
        return None

    def begin(self, head: Head) -> None:
        """Starts the journal; the metadata is written. Raises OSError."""
        replace_file(self.path / UNFINISHED, head_line(head))

    def add(self, entry: RecordsFile | ArchivedPartition) -> None:
        """Adds a line to the journal, after what it states is on the disk. Raises OSError."""
        descriptor = os.open(self.path / UNFINISHED, os.O_RDWR | os.O_APPEND, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            # A line that was cut off by a kill ends here.
            cut_off = size and os.pread(descriptor, 1, size - 1) != b"\n"
            if cut_off:
                os.ftruncate(descriptor, os.pread(descriptor, size, 0).rfind(b"\n") + 1)
            os.write(descriptor, entry_line(entry))
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def intact(self, files: Iterable[RecordsFile]) -> Sequence[RecordsFile]:
        """Returns the first of the files that are in the folder with their size."""
        return [*takewhile(self._has, files)]

    def finish(self, contents: ArchiveContents) -> None:
        """Writes the manifest after everything else is on the disk. Raises OSError."""
        for folder in {(self.path / file.name).parent for each in contents.partitions for file in each.files}:
            flush_folder(folder)
        replace_file(self.path / MANIFEST, contents.to_json())
        with suppress(FileNotFoundError):
            (self.path / UNFINISHED).unlink()

    def write_metadata(self, data: bytes) -> ListedFile:
        """Writes the metadata. Raises OSError."""
        replace_file(self.path / METADATA, data)
        return ListedFile(METADATA, len(data), hashlib.sha256(data).hexdigest())

    def read_metadata(self, file: ListedFile) -> bytes:
        """Reads the metadata. Raises ArchiveError, OSError."""
        return self._read(file)

    def write_records(self, topic_id: str, partition: int, batches: Sequence[StoredBatch]) -> RecordsFile:
        """Writes consecutive batches of a partition. Raises OSError."""
        raw = b"".join([batch.data for batch in batches])
        data = bytes(cramjam.zstd.compress(raw, level=_LEVEL))
        name = records_name(topic_id, partition, batches[0].base_offset)
        path = self.path / name
        for folder in (path.parent.parent.parent, path.parent.parent, path.parent):
            make_private(folder, names=())
        replace_file(path, data)
        return RecordsFile(
            name,
            len(data),
            hashlib.sha256(data).hexdigest(),
            len(raw),
            sum(header_of(batch.data).record_count for batch in batches if not batch.control),
            batches[0].base_offset,
            batches[-1].last_offset + 1,
        )

    def read_records(self, file: RecordsFile) -> Sequence[StoredBatch]:
        """Reads and checks a file of batches. Raises ArchiveError, OSError."""
        data = self._read(file)
        try:
            raw = bytes(cramjam.zstd.decompress(data, output_len=file.raw_size))
            batches = list(stored_batches(raw))
        except (cramjam.DecompressionError, KafkaError, ValueError) as error:
            raise self._damaged(file) from error
        offset = file.first_offset
        for batch in batches:
            if batch.base_offset < offset:
                raise self._damaged(file)
            offset = batch.last_offset + 1
        if len(raw) != file.raw_size or offset != file.end_offset:
            raise self._damaged(file)
        return batches

    def _has(self, file: RecordsFile) -> bool:
        path = self.path / file.name
        return path.exists() and path.stat().st_size == file.size

    def _read(self, file: ListedFile | RecordsFile) -> bytes:
        try:
            data = (self.path / file.name).read_bytes()
        except FileNotFoundError:
            raise ArchiveError(f"{self.path / file.name} is missing.") from None
        if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
            raise self._damaged(file)
        return data

    def _damaged(self, file: ListedFile | RecordsFile) -> ArchiveError:
        return ArchiveError(f"{self.path / file.name} is damaged: its size or its checksum is wrong.")
