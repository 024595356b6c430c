"""The files of an archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sharebroker_server.broker.archive.folder import UNFINISHED, ArchiveFolder
from sharebroker_server.broker.core.archive_contents import (
    METADATA,
    ArchiveContents,
    ArchivedPartition,
    ArchiveError,
    Head,
    RecordsFile,
)
from sharebroker_server.record_log.core.batch import StoredBatch
from tests.unit.broker.core.archives import ORDERS
from tests.unit.record_log.batches import stored

BATCHES = [stored(5), stored(8, 2), stored(20, 9)]


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(tmp_path / "archive")


@pytest.fixture
def file(folder: ArchiveFolder) -> RecordsFile:
    assert folder.journal() is None
    return folder.write_records(ORDERS.topic_id, 1, BATCHES)


def begun(folder: ArchiveFolder) -> Head:
    head = Head("a", "0.1.0", 1.0, [], [], 1, 0, folder.write_metadata(b"{}\n"))
    folder.begin(head)
    return head


def test_batches_are_read_as_they_were_written(folder: ArchiveFolder, file: RecordsFile) -> None:
    assert folder.read_records(file) == BATCHES
    assert (file.records, file.first_offset, file.end_offset) == (14, 5, 29)
    assert file.raw_size == sum(len(batch.data) for batch in BATCHES)
    assert (folder.path / file.name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "wrong", [{"size": 1}, {"sha256": "0" * 64}, {"raw_size": 1}, {"first_offset": 6}, {"end_offset": 28}]
)
def test_a_file_that_differs_from_the_manifest_is_damaged(
    folder: ArchiveFolder, file: RecordsFile, wrong: dict[str, object]
) -> None:
    with pytest.raises(ArchiveError, match=r"zst is damaged"):
        folder.read_records(replace(file, **wrong))  # type: ignore[arg-type]


def test_a_batch_with_a_wrong_checksum_is_damaged(folder: ArchiveFolder) -> None:
    assert folder.journal() is None
    data = bytearray(BATCHES[0].data)
    data[-1] ^= 1
    broken = StoredBatch.from_bytes(bytes(data))
    with pytest.raises(ArchiveError, match=r"zst is damaged"):
        folder.read_records(folder.write_records(ORDERS.topic_id, 0, [broken]))


def test_a_journal_continues_after_a_line_that_was_cut_off(folder: ArchiveFolder, file: RecordsFile) -> None:
    head = begun(folder)
    folder.add(file)
    journal = folder.path / UNFINISHED
    whole = journal.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        journal.write_bytes(whole[:cut])
        folder.add(file)
        found = folder.journal()
        assert found is not None
        assert (found.head, found.files(ORDERS.topic_id, 1)) == (head, [file])


def test_files_after_a_missing_one_are_not_used(folder: ArchiveFolder, file: RecordsFile) -> None:
    second = folder.write_records(ORDERS.topic_id, 1, [stored(29)])
    assert folder.intact([file, second]) == [file, second]
    (folder.path / file.name).write_bytes(b"")
    assert folder.intact([file, second]) == []
    (folder.path / file.name).unlink()
    assert folder.intact([file, second]) == []


def test_metadata_written_before_the_journal_is_replaced(folder: ArchiveFolder) -> None:
    assert folder.journal() is None
    folder.write_metadata(b"{}\n")
    assert folder.journal() is None
    (folder.path / "other").touch()
    with pytest.raises(ArchiveError, match="is not empty"):
        folder.journal()


def test_a_complete_archive_has_a_manifest(folder: ArchiveFolder, file: RecordsFile) -> None:
    with pytest.raises(ArchiveError, match=r"contains no complete archive: manifest\.json is missing"):
        folder.contents()
    head = begun(folder)
    contents = ArchiveContents(head, [ArchivedPartition(ORDERS.topic_id, 1, 2, 5, 29, {}, [file])])
    folder.finish(contents)
    assert folder.contents() == contents
    assert not (folder.path / UNFINISHED).exists()
    assert folder.read_metadata(head.metadata) == b"{}\n"
    (folder.path / METADATA).write_bytes(b"{]\n")
    with pytest.raises(ArchiveError, match="damaged"):
        folder.read_metadata(head.metadata)
    with pytest.raises(ArchiveError, match="contains a complete archive"):
        folder.journal()
