"""Archives and clusters without servers, for tests of export and import."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sharebroker_server.broker.archive.codec import decode_records, encode_records
from sharebroker_server.broker.archive.exporting import export_archive
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.importing import Imported, import_archive
from sharebroker_server.broker.archive.stores import Stores, open_to_write
from sharebroker_server.broker.core.archive_contents import ArchiveContents, ArchivedPartition, Head
from sharebroker_server.broker.core.archive_selection import ArchiveRecord, Selection
from sharebroker_server.broker.core.archive_topics import Choices
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core.share_groups.group import GroupRecord
from sharebroker_server.record_log.core.addressed import CopyAddress, note_of
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.notes import Note, Notes
from sharebroker_server.record_log.core.snapshots import snapshots_of
from sharebroker_server.record_log.core.transactions import DUPLICATES, AbortedTransaction, Transactions
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from tests.unit.broker.core.archives import (
    BILLS,
    ORDERS,
    SETTING,
    TOPICS,
    committed,
    share_group,
    state,
)
from tests.unit.record_log.batches import stored

SHARDS = ("offsets.topic.num.partitions=3", "share.coordinator.state.topic.num.partitions=3")
"""Few shards, so that a test replays few logs."""

RECORDS: Sequence[ArchiveRecord] = [
    *TOPICS,  # type: ignore[list-item]
    SETTING,
    *share_group("g", topics=(ORDERS, BILLS)),  # type: ignore[list-item]
    state(),
    state(partition=1),
    state(topic=BILLS),
    *share_group("other", topics=(BILLS,)),  # type: ignore[list-item]
    state("other", BILLS),
    committed(),
]

NOTES = snapshots_of(
    Transactions(
        {},
        [AbortedTransaction(7, 4, 5, 6), AbortedTransaction(DUPLICATES, 6, 6, 7)],
        notes=Notes({**note_of([1], 9, CopyAddress("g", "r")), "dlq:g\0x\x000\x001": Note(b"written")}),
    )
)


def logs() -> dict[tuple[str, int], tuple[ArchivedPartition, Sequence[StoredBatch]]]:
    """Returns a log that begins within a batch and has gaps, an empty one that ends at 9, and a long one."""
    first = [stored(3), stored(6, 1), stored(9, 4)]
    long = [stored(10 * number, 10, 700) for number in range(400)]
    return {
        (ORDERS.topic_id, 0): (ArchivedPartition(ORDERS.topic_id, 0, 3, 4, 13, NOTES), first),
        (ORDERS.topic_id, 1): (ArchivedPartition(ORDERS.topic_id, 1, 5, 9, 9, {}), ()),
        (BILLS.topic_id, 0): (ArchivedPartition(BILLS.topic_id, 0, 12, 0, 4000, {}), long),
    }


def make_archive(path: Path, records: Sequence[ArchiveRecord] = RECORDS) -> ArchiveContents:
    """Writes an archive with the records and `logs`, whose batches are in several files."""
    path.mkdir(mode=0o700)
    folder = ArchiveFolder(path)
    metadata = folder.write_metadata(encode_records(records))
    head = Head("archive", "0.1.0", 7.0, [], [], 2, 3, metadata)
    partitions = []
    for (topic_id, number), (partition, batches) in logs().items():
        files = [
            folder.write_records(topic_id, number, batches[start : start + 150])
            for start in range(0, len(batches), 150)
        ]
        fields = (
            partition.leader_epoch,
            partition.log_start_offset,
            partition.log_end_offset,
            partition.notes,
        )
        partitions.append(ArchivedPartition(topic_id, number, *fields, files))
    contents = ArchiveContents(head, partitions)
    folder.finish(contents)
    return contents


@dataclass(frozen=True)
class Content:
    """What matters of an archive: its records, and of each log the fields and the batches.

    The leader epoch is left out: it increases with each owner of the lease.
    """

    records: Sequence[ArchiveRecord]
    logs: Mapping[tuple[str, int], tuple[Any, ...]]


def content(path: Path) -> Content:
    """Reads an archive without what an export and an import change."""
    folder = ArchiveFolder(path)
    contents = folder.contents()
    records = [_stable(each) for each in decode_records(folder.read_metadata(contents.head.metadata))]
    return Content(
        sorted(records, key=repr),
        {
            (each.topic_id, each.partition): (
                each.log_start_offset,
                each.log_end_offset,
                each.notes,
                [batch.data for file in each.files for batch in folder.read_records(file)],
            )
            for each in contents.partitions
        },
    )


def _stable(record: ArchiveRecord) -> ArchiveRecord:
    """Returns a record without the numbers and times of checkpoints, and a group without its hash."""
    if isinstance(record, GroupRecord):
        return replace(record, metadata_hash=0)
    if isinstance(record, ShareCheckpoint):
        return record._replace(checkpoint_epoch=0, create_timestamp_ms=0, write_timestamp_ms=0)
    return record


def at(url: str, *properties: str) -> ServeSettings:
    """Returns the settings of a cluster with few shards in a Redis."""
    return ServeSettings(redis=url, config=BrokerConfig.parse([*SHARDS, *properties]))


def silent(_total: int) -> Callable[[int], None]:
    """Shows no progress."""
    return lambda _step: None


async def exported(url: str, target: Path, selection: Selection | None = None) -> ArchiveContents:
    """Exports a cluster."""
    return await export_archive(at(url), target, selection or Selection(), silent)


async def imported(url: str, source: Path, choices: Choices | None = None) -> Imported:
    """Imports an archive."""
    return await import_archive(at(url), source, choices or Choices(), silent)


@asynccontextmanager
async def opened(url: str, *properties: str) -> AsyncIterator[Stores]:
    """Opens the stores of a cluster."""
    async with AsyncExitStack() as stack:
        yield await open_to_write(at(url, *properties), stack)


class KilledError(Exception):
    """Stands for the end of the process."""


class Killer:
    """Ends the process at a step: the `at`th call of any function that it wraps."""

    def __init__(self, at_step: int) -> None:
        self._left = at_step
        self.killed = False

    def step(self) -> None:
        """Counts a step. Raises KilledError at the last one, and at all after it."""
        self._left -= 1
        if self._left <= 0:
            self.killed = True
            raise KilledError

    def begin(self, _total: int) -> Callable[[int], None]:
        """Counts each step of progress."""
        return lambda _step: self.step()

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the call with a step before it."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return call(*args, **kwargs)

        return counted
