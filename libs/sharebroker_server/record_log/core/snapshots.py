"""The snapshots of a partition: the stored form of what its leader has in memory beside the batches.

Snapshots are small named values, stored beside the partition's batches: "p<producer id>" is a producer,
"a<last offset>" an aborted transaction or a range of duplicates, "s<last offset>" a range of scheduled
records, "r<offset>" a recalled one, "n<key>" a note. "c" and "d" are entries of the index of share state
(`share_index`). The first byte is the format version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from sharebroker_server.record_log.core.notes import Notes
from sharebroker_server.record_log.core.producers import ProducerState, SentBatch
from sharebroker_server.record_log.core.schedules import Scheduled, Schedules
from sharebroker_server.record_log.core.share_index import CHECKPOINT_NAME, DELTA_NAME, ShareIndex
from sharebroker_server.record_log.core.transactions import (
    RECALLED,
    AbortedTransaction,
    Draft,
    Transactions,
)

_FORMAT: Final = 0
PRODUCER_NAME: Final = "p"
"""The first character of the name of a producer's snapshot; its id follows."""

NOTE_NAME: Final = "n"
"""The first character of the name of a note's snapshot; its key follows."""

_PRODUCER: Final = struct.Struct(">Bhqqqi")
_SENT: Final = struct.Struct(">iiqqq")
_ABORTED: Final = struct.Struct(">Bqqqq")
"""Also of scheduled records: the producer id is then the negative time, the stable offset 0."""


def snapshots_of(state: Transactions | Draft) -> dict[str, bytes]:
    """Returns the snapshots of the durable state, or of a draft's changes."""
    # Loops: nearly every write has one changed producer and nothing else.
    snapshots = {f"{PRODUCER_NAME}{id_}": _pack(producer) for id_, producer in state.producers.items()}
    for ended in (*state.aborted, *state.duplicates):
        snapshots[f"a{ended.last_offset}"] = _ABORTED.pack(_FORMAT, *ended)
    for first, last, due_ms in state.scheduled:
        snapshots[f"s{last}"] = _ABORTED.pack(_FORMAT, -due_ms, first, last, 0)
    for offset in state.recalled:
        snapshots[f"r{offset}"] = _ABORTED.pack(_FORMAT, RECALLED, offset, offset, 0)
    for key, note in state.changed_notes:
        snapshots[f"{NOTE_NAME}{key}"] = note.packed()
    for entry in state.share_entries:
        snapshots[entry.name] = entry.packed()
    return snapshots


def lost_snapshots(
    state: Transactions, stored: Mapping[str, bytes], gap: range = range(0)
) -> dict[str, bytes]:
    """Returns the snapshots of the durable state that the store lacks, or has in an earlier version.

    The store may have a later version, of an append whose outcome is unknown.

    Raises:
        ValueError: a stored snapshot has an unknown format version.
    """
    found = load_snapshots(stored)
    lost = {
        name: snapshot
        for name, snapshot in snapshots_of(state).items()
        if name not in stored
        or (
            name[0] == PRODUCER_NAME
            and _is_earlier(found.producers[int(name[1:])], state.producers[int(name[1:])])
        )
        or (name[0] == NOTE_NAME and found.notes.version(name[1:]) < state.notes.version(name[1:]))
    }
    return lost | state.share.lost(found.share, gap)


def _is_earlier(stored: ProducerState, state: ProducerState) -> bool:
    """Returns whether a stored state is earlier than the one in memory, by time, then by its last batch."""
    stored_at, at = (stored.epoch, stored.timestamp), (state.epoch, state.timestamp)
    if stored_at != at:
        return stored_at < at
    return set(stored.batches[-1:]) < set(state.batches) and stored.batches[-1:] != state.batches[-1:]


def load_snapshots(snapshots: Mapping[str, bytes]) -> Transactions:
    """Returns the state that the snapshots of a partition contain.

    Raises:
        ValueError: a snapshot has an unknown format version.
    """
    producers, aborted = dict[int, ProducerState](), list[AbortedTransaction]()
    scheduled, recalled = list[Scheduled](), list[int]()
    notes: dict[str, bytes] = {}
    share: dict[str, bytes] = {}
    for name, snapshot in snapshots.items():
        if name.startswith(NOTE_NAME):
            notes[name[1:]] = snapshot
            continue
        if name.startswith((CHECKPOINT_NAME, DELTA_NAME)):
            share[name] = snapshot
            continue
        if snapshot[0] != _FORMAT:
            raise ValueError(f"producer snapshot {name} has unknown format {snapshot[0]}")
        if name.startswith(PRODUCER_NAME):
            producers[int(name[1:])] = _unpack(snapshot)
        elif name.startswith("s"):
            _, time, first, last, _ = _ABORTED.unpack(snapshot)
            scheduled.append(Scheduled(first, last, -time))
        elif name.startswith("r"):
            recalled.append(int(name[1:]))
        else:
            aborted.append(AbortedTransaction(*_ABORTED.unpack(snapshot)[1:]))
    return Transactions(
        producers, aborted, Schedules(scheduled, recalled), Notes.load(notes), ShareIndex.load(share)
    )


def snapshot_names(
    producer_ids: Iterable[int] = (),
    aborted: Iterable[AbortedTransaction] = (),
    scheduled: Iterable[Scheduled] = (),
    recalled: Iterable[int] = (),
    notes: Iterable[str] = (),
) -> list[str]:
    """Returns the names of snapshots to delete."""
    return [
        *(f"{PRODUCER_NAME}{id_}" for id_ in producer_ids),
        *(f"a{each.last_offset}" for each in aborted),
        *(f"s{each.last}" for each in scheduled),
        *(f"r{offset}" for offset in recalled),
        *(f"{NOTE_NAME}{key}" for key in notes),
    ]


def _pack(state: ProducerState) -> bytes:
    epoch, batches, *rest = state
    layout = _PRODUCER.format + len(batches) * _SENT.format[1:]
    return struct.pack(layout, _FORMAT, epoch, *rest, *chain.from_iterable(batches))


def _unpack(snapshot: bytes) -> ProducerState:
    _, epoch, *rest = _PRODUCER.unpack_from(snapshot)
    return ProducerState(
        epoch, tuple(map(SentBatch._make, _SENT.iter_unpack(snapshot[_PRODUCER.size :]))), *rest
    )
