"""Where a partition's log has the state of its share groups: the newest checkpoints and their deltas.

An entry is stored beside the batches, in the same step as its control record: "c<group id>" for a
checkpoint, "d<slot>:<group id>" for a delta. A later record of the same name replaces it. A checkpoint makes
all earlier deltas of its group redundant, but leaves their names; only offsets above that of the checkpoint
count.

The *Share Checkpoint Offset* (SCO) of a group is the offset of its newest checkpoint, the *Earliest Share
Offset* (ESO) the lowest of them. Control records below a group's SCO are not needed; those from it on are.

A deleted group has an entry of its last record until its names are removed. It keeps no part of the log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.share_control import ControlRecord, control_batch

CHECKPOINT_NAME: Final = "c"
"""The first character of the name of a checkpoint's entry; the group id follows."""

DELTA_NAME: Final = "d"
"""The first character of the name of a delta's entry; its slot, a colon and the group id follow."""

CHECKPOINT_SLOT: Final = -1

_FORMAT: Final = 1  # servers without control records reject an entry, since they expect 0
_ENTRY: Final = struct.Struct(">BBqqI")


class IndexedRecord(NamedTuple):
    """A control record with its place in the index: a group, and the slot of a delta (see `share_index`)."""

    control: ControlRecord
    group_id: str
    slot: int
    deleted: bool = False


class IndexEntry(NamedTuple):
    """A control record of a group at an offset: a checkpoint, or the delta of a slot.

    `records_end` is the offset after the last batch for readers before it. `deleted`: the state was deleted.
    `number` is that of the record in its batch, from 0.
    """

    group_id: str
    slot: int
    offset: int
    records_end: int
    deleted: bool = False
    number: int = 0

    @property
    def name(self) -> str:
        """The name under which the entry is stored."""
        if self.slot == CHECKPOINT_SLOT:
            return CHECKPOINT_NAME + self.group_id
        return f"{DELTA_NAME}{self.slot}:{self.group_id}"

    def packed(self) -> bytes:
        """Returns the stored form."""
        return _ENTRY.pack(_FORMAT, self.deleted, self.offset, self.records_end, self.number)


def _unpacked(name: str, stored: bytes) -> IndexEntry:
    if stored[0] != _FORMAT or len(stored) != _ENTRY.size:
        raise ValueError(f"index entry {name!r} has unknown format {stored[0]}")
    _, deleted, offset, records_end, number_in_batch = _ENTRY.unpack(stored)
    slot, group_id = CHECKPOINT_SLOT, name[1:]
    if name.startswith(DELTA_NAME):
        number, _, group_id = group_id.partition(":")
        slot = int(number)
    return IndexEntry(group_id, slot, offset, records_end, bool(deleted), number_in_batch)


def state_batch(
    records: Sequence[IndexedRecord], base_offset: int, records_end: int
) -> tuple[StoredBatch, list[IndexEntry]]:
    """Returns the control batch of these records, at least one, and their entries in the index."""
    entries = [
        IndexEntry(record.group_id, record.slot, base_offset + number, records_end, record.deleted, number)
        for number, record in enumerate(records)
    ]
    return control_batch([record.control for record in records], base_offset), entries


@dataclass(slots=True)
class _Group:
    checkpoint: IndexEntry | None = None
    deltas: dict[int, IndexEntry] = field(default_factory=dict)
    """All stored deltas by slot, also redundant ones."""

    def needed(self) -> Iterator[IndexEntry]:
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.deleted:
            return
        yield checkpoint
        for delta in self.deltas.values():
            if delta.offset > checkpoint.offset:
                yield delta


class ShareIndex:
    """The index of one partition; an entry is added once its control record is durable."""

    __slots__ = ("_deleted", "_groups", "newest", "records_end")

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._deleted: set[str] = set()
        self.newest = -1
        """The offset of the newest control record; -1 without one."""
        self.records_end = -1
        """The offset after the last batch for readers before it; -1 without one."""

    @classmethod
    def load(cls, stored: Mapping[str, bytes]) -> ShareIndex:
        """Returns the index with these stored entries.

        Raises:
            ValueError: an entry has an unknown format.
        """
        index = cls()
        entries = [_unpacked(name, value) for name, value in stored.items()]
        index.add(sorted(entries, key=lambda entry: entry.offset))
        return index

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, entries: Iterable[IndexEntry]) -> None:
        """Adds entries, ascending by offset; each replaces an earlier one of its name."""
        for entry in entries:
            group = self._groups.setdefault(entry.group_id, _Group())
            if entry.slot == CHECKPOINT_SLOT:
                group.checkpoint = entry
                (self._deleted.add if entry.deleted else self._deleted.discard)(entry.group_id)
            else:
                group.deltas[entry.slot] = entry
            self.newest, self.records_end = entry.offset, entry.records_end

    def entries(self) -> Iterator[IndexEntry]:
        """Yields every stored entry."""
        for group in self._groups.values():
            if group.checkpoint is not None:
                yield group.checkpoint
            yield from group.deltas.values()

    def needed(self) -> list[int]:
        """Returns the offsets of the control records from which all state is rebuilt, ascending."""
        return sorted(entry.offset for group in self._groups.values() for entry in group.needed())

    def needed_batches(self) -> list[int]:
        """Returns the base offsets of the batches with these control records, ascending."""
        entries = (entry for group in self._groups.values() for entry in group.needed())
        return sorted({entry.offset - entry.number for entry in entries})

    def checkpoint_offset(self, group_id: str) -> int | None:
        """Returns the SCO of a group, None without state."""
        group = self._groups.get(group_id)
        found = None if group is None else next(group.needed(), None)
        return None if found is None else found.offset

    def checkpoint_offsets(self) -> dict[str, int]:
        """Returns the SCO of each group that has state here."""
        return {
            group_id: checkpoint.offset
            for group_id, group in self._groups.items()
            if (checkpoint := next(group.needed(), None)) is not None
        }

    def groups_before(self, offset: int) -> list[str]:
        """Returns the groups whose SCO is below an offset, the lowest first."""
        found = self.checkpoint_offsets()
        return sorted((group_id for group_id in found if found[group_id] < offset), key=found.__getitem__)

    def earliest(self) -> int | None:
        """Returns the ESO, None if no group has state here."""
        return min(self.checkpoint_offsets().values(), default=None)

    @property
    def deleted(self) -> frozenset[str]:
        """The groups whose state was deleted, and whose names are still stored."""
        return frozenset(self._deleted)

    def remove(self, group_ids: Iterable[str]) -> list[str]:
        """Removes deleted groups; returns the names that are to be removed from the store."""
        names: list[str] = []
        for group_id in self._deleted.intersection(group_ids):
            group = self._groups.pop(group_id)
            self._deleted.remove(group_id)
            if group.checkpoint is not None:
                names.append(group.checkpoint.name)
            names += [delta.name for delta in group.deltas.values()]
        return names

    def lost(self, stored: ShareIndex, gap: range = range(0)) -> dict[str, bytes]:
        """Returns the entries that a store lacks, or has of an earlier record, with their stored forms.

        Those of the offsets in `gap` are left out: their control records are lost, too.
        """
        there = {entry.name: entry.offset for entry in stored.entries()}
        return {
            entry.name: entry.packed()
            for entry in self.entries()
            if there.get(entry.name, -1) < entry.offset and entry.offset not in gap
        }
