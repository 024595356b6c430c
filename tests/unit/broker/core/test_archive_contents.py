"""The manifest of an archive, and the journal of an unfinished export."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from sharebroker_server.broker.core.archive_contents import (
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

TOPIC = "L0q_9xXBWcW1PYDWSy-nXw"
HEAD = Head("one", "0.1.0", 5.5, ["orders*"], [], 1, 2, ListedFile(METADATA, 9, "a" * 64))


def file(first: int, end: int, partition: int = 0) -> RecordsFile:
    name = records_name(TOPIC, partition, first)
    return RecordsFile(name, 10, "b" * 64, 100, end - first, first, end)


PARTITION = ArchivedPartition(TOPIC, 0, 3, 5, 40, {"ndlq:g\0x": b"\0\xff"}, [file(2, 20), file(25, 40)])
EMPTY = ArchivedPartition(TOPIC, 1, 0, 7, 7, {})
CONTENTS = ArchiveContents(HEAD, [PARTITION, EMPTY])


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert ArchiveContents.parse(CONTENTS.to_json()) == ArchiveContents(
        HEAD, [PARTITION, ArchivedPartition(TOPIC, 1, 0, 7, 7, {}, [])]
    )
    assert (CONTENTS.records, CONTENTS.raw_size, CONTENTS.size) == (33, 200, 29)


def test_an_archive_of_another_version_is_rejected() -> None:
    later = orjson.dumps({**orjson.loads(CONTENTS.to_json()), "version": 2, "release": "0.9.0"})
    with pytest.raises(ArchiveError, match=r"has version 2, written by release 0\.9\.0.* reads version 1"):
        ArchiveContents.parse(later)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("name", "records/../../../etc/passwd"),
        ("name", records_name(TOPIC, 1, 2)),
        ("sha256", "short"),
        ("size", -1),
        ("raw_size", "100"),
        ("first_offset", 3),
        ("end_offset", 2),
        ("end_offset", 26),
        ("end_offset", 41),
    ],
)
def test_a_damaged_entry_of_a_file_is_detected(place: str, value: object) -> None:
    fields: dict[str, Any] = orjson.loads(CONTENTS.to_json())
    fields["partitions"][0]["files"][0][place] = value
    with pytest.raises(ArchiveError, match="is damaged"):
        ArchiveContents.parse(orjson.dumps(fields))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 1}', CONTENTS.to_json()[:-2]])
def test_a_damaged_manifest_is_detected(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="is damaged"):
        ArchiveContents.parse(data)


def test_a_journal_that_was_cut_off_has_its_complete_lines() -> None:
    lines = [head_line(HEAD), entry_line(file(2, 20)), entry_line(file(25, 40)), entry_line(PARTITION)]
    for end in range(len(b"".join(lines)) + 1):
        journal = ExportJournal.parse(b"".join(lines)[:end])
        complete = sum(end >= len(b"".join(lines[: count + 1])) for count in range(len(lines)))
        if journal is None:
            assert not complete
            continue
        assert journal.head == HEAD
        assert journal.files(TOPIC, 0) == ([file(2, 20), file(25, 40)][: complete - 1] or ())
        assert journal.partitions == ({(TOPIC, 0): PARTITION} if complete == len(lines) else {})


def test_a_repeated_file_replaces_the_files_from_its_first_offset() -> None:
    written = [file(2, 20), file(25, 40), file(40, 60), file(25, 30), file(30, 45)]
    journal = ExportJournal.parse(b"".join([head_line(HEAD), *map(entry_line, written)]))
    assert journal is not None
    assert journal.files(TOPIC, 0) == [file(2, 20), file(25, 30), file(30, 45)]


def test_a_damaged_journal_is_rejected() -> None:
    with pytest.raises(ArchiveError, match="damaged"):
        ExportJournal.parse(head_line(HEAD) + b'{"name": 1}\n')
