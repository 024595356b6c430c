"""The contents of an archive of topics and groups: its manifest, and the journal of an unfinished export.

Both are JSON. Records are in files of their own, and all other data is in one file of JSON lines, `METADATA`.
The manifest lists all of them with their checksums; an archive with it is complete.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson

from sharebroker_server.broker.core.listed_files import ListedFile, check_version, count, sha256

VERSION: Final = 1
"""The version of the format that this release writes, and the only one that it reads."""

MANIFEST: Final = "manifest.json"
METADATA: Final = "metadata.jsonl"

_RECORDS: Final = re.compile(r"records/[A-Za-z0-9_-]{22}/\d{1,5}/\d{20}\.zst")


class ArchiveError(Exception):
    """An archive cannot be written or imported; the text is a sentence for operators."""


@dataclass(frozen=True, slots=True)
class RecordsFile:
    """A compressed file with consecutive record batches of one partition.

    `size` is that of the file, `raw_size` that of the batches, both in bytes. The offsets of the batches are
    in [first_offset, end_offset).
    """

    name: str
    size: int
    sha256: str
    raw_size: int
    records: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ArchivedPartition:
    """The log of one partition. `leader_epoch` is the epoch of its lease, `notes` the snapshots beside it."""

    topic_id: str
    partition: int
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    notes: Mapping[str, bytes]
    files: Sequence[RecordsFile] = ()

    @property
    def raw_size(self) -> int:
        """The size of its batches in bytes."""
        return sum(file.raw_size for file in self.files)

    @property
    def records(self) -> int:
        """The number of records in its batches."""
        return sum(file.records for file in self.files)


@dataclass(frozen=True, slots=True)
class Head:
    """What an export decided when it began.

    `begun_at` is in seconds since the Unix epoch: no state of a group is older. The patterns are those of the
    command, `topics` and `groups` the numbers of what they select.
    """

    archive_id: str
    release: str
    begun_at: float
    topic_patterns: Sequence[str]
    group_patterns: Sequence[str]
    topics: int
    groups: int
    metadata: ListedFile


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The manifest: the head, and all partitions."""

    head: Head
    partitions: Sequence[ArchivedPartition]

    @property
    def records(self) -> int:
        """The number of records in all partitions."""
        return sum(partition.records for partition in self.partitions)

    @property
    def raw_size(self) -> int:
        """The size of all record batches in bytes."""
        return sum(partition.raw_size for partition in self.partitions)

    @property
    def size(self) -> int:
        """The size of all listed files in bytes."""
        return self.head.metadata.size + sum(file.size for each in self.partitions for file in each.files)

    def to_json(self) -> bytes:
        """Returns the stored form."""
        fields = {
            "version": VERSION,
            **asdict(self.head),
            "records": self.records,
            "partitions": [_fields_of(partition) for partition in self.partitions],
        }
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2)

    @classmethod
    def parse(cls, data: bytes) -> ArchiveContents:
        """Reads the stored form. Raises ArchiveError."""
        try:
            fields = orjson.loads(data)
            check_version(fields, VERSION, "archive", ArchiveError)
            return cls(_head(fields), [_partition(each) for each in fields["partitions"]])
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{MANIFEST} of the archive is damaged.") from error


class ExportJournal:
    """What an unfinished export has completed: lines of JSON, of which the last may be cut off."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.partitions: dict[tuple[str, int], ArchivedPartition] = {}
        """The partitions that are complete."""
        self._files: dict[tuple[str, int], list[RecordsFile]] = {}

    @classmethod
    def parse(cls, data: bytes) -> ExportJournal | None:
        """Reads the lines; None if not even the head is complete. Raises ArchiveError."""
        lines = data.split(b"\n")[:-1]
        try:
            if not lines:
                return None
            fields = orjson.loads(lines[0])
            check_version(fields, VERSION, "archive", ArchiveError)
            journal = cls(_head(fields))
            for line in lines[1:]:
                journal.add(_entry(orjson.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(
                "The journal of the unfinished export is damaged. Remove the folder."
            ) from error
        return journal

    def add(self, entry: RecordsFile | ArchivedPartition) -> None:
        """Adds a complete file, or a complete partition.

        A file that was written again replaces the files from its first offset on.
        """
        if isinstance(entry, ArchivedPartition):
            self.partitions[entry.topic_id, entry.partition] = entry
        else:
            _, topic_id, partition, _ = entry.name.split("/")
            files = self._files.setdefault((topic_id, int(partition)), [])
            while files and files[-1].end_offset > entry.first_offset:
                files.pop()
            files.append(entry)

    def files(self, topic_id: str, partition: int) -> Sequence[RecordsFile]:
        """Returns the complete files of a partition, in the order of their offsets."""
        return self._files.get((topic_id, partition), ())


def head_line(head: Head) -> bytes:
    """Returns the first line of a journal."""
    return orjson.dumps({"version": VERSION, **asdict(head)}) + b"\n"


def entry_line(entry: RecordsFile | ArchivedPartition) -> bytes:
    """Returns the line of a complete file or partition."""
    fields = asdict(entry) if isinstance(entry, RecordsFile) else _fields_of(entry)
    return orjson.dumps(fields) + b"\n"


def records_name(topic_id: str, partition: int, first_offset: int) -> str:
    """Returns the name of a file with the batches from an offset on."""
    return f"records/{topic_id}/{partition}/{first_offset:020d}.zst"


def _fields_of(partition: ArchivedPartition) -> dict[str, Any]:
    notes = {name: b64encode(note).decode() for name, note in sorted(partition.notes.items())}
    return asdict(replace(partition, notes={})) | {"notes": notes}


def _entry(fields: dict[str, Any]) -> RecordsFile | ArchivedPartition:
    return _partition(fields) if "files" in fields else _records_file(fields)


def _head(fields: dict[str, Any]) -> Head:
    return Head(
        str(fields["archive_id"]),
        str(fields["release"]),
        float(fields["begun_at"]),
        [*map(str, fields["topic_patterns"])],
        [*map(str, fields["group_patterns"])],
        count(fields["topics"]),
        count(fields["groups"]),
        _file(fields["metadata"]),
    )


def _file(fields: dict[str, Any]) -> ListedFile:
    if fields["name"] != METADATA:
        raise ValueError(fields["name"])
    return ListedFile(METADATA, count(fields["size"]), sha256(fields["sha256"]))


def _records_file(fields: dict[str, Any]) -> RecordsFile:
    if not _RECORDS.fullmatch(fields["name"]):
        raise ValueError(fields["name"])
    counts = [count(fields[name]) for name in ("size", "raw_size", "records", "first_offset", "end_offset")]
    size, raw_size, records, first_offset, end_offset = counts
    if end_offset <= first_offset:
        raise ValueError("the file has no offsets")
    return RecordsFile(
        fields["name"], size, sha256(fields["sha256"]), raw_size, records, first_offset, end_offset
    )


def _partition(fields: dict[str, Any]) -> ArchivedPartition:
    """Reads a partition. Raises ValueError, KeyError, TypeError."""
    topic_id, partition = str(fields["topic_id"]), count(fields["partition"])
    files = [_records_file(each) for each in fields["files"]]
    end = count(fields["log_end_offset"])
    offset = 0
    for file in files:
        if file.name != records_name(topic_id, partition, file.first_offset) or file.first_offset < offset:
            raise ValueError(file.name)
        offset = file.end_offset
    if offset > end or fields["log_start_offset"] > end:
        raise ValueError("the log ends before its records")
    return ArchivedPartition(
        topic_id,
        partition,
        count(fields["leader_epoch"]),
        count(fields["log_start_offset"]),
        end,
        {str(name): b64decode(note, validate=True) for name, note in fields["notes"].items()},
        files,
    )
