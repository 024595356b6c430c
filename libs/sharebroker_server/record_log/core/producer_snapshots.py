"""Encodes producers and aborted transactions as small named values, stored beside a partition's batches.

"p<producer id>" is a producer, "a<last offset>" an aborted transaction. The first byte is the format version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_server.record_log.core.producers import ProducerState, SentBatch
from sharebroker_server.record_log.core.transactions import AbortedTransaction, Draft, Transactions

_FORMAT: Final = 0
_MAX_OFFSET: Final = 1 << 63
_PRODUCER: Final = struct.Struct(">Bhqqqi")
_SENT: Final = struct.Struct(">iiqqq")
_ABORTED: Final = struct.Struct(">Bqqqq")


def producer_name(producer_id: int) -> str:
    """Returns the name of a producer's snapshot."""
    return f"p{producer_id}"


def aborted_name(transaction: AbortedTransaction) -> str:
    """Returns the name of an aborted transaction's entry."""
    return f"a{transaction.last_offset}"


def of_draft(draft: Draft) -> dict[str, bytes]:
    """Returns the snapshots to write together with the batches of a draft."""
    return _packed(draft.producers, draft.aborted)


def of(transactions: Transactions) -> dict[str, bytes]:
    """Returns the snapshots of the whole durable state."""
    return _packed(transactions.producers(), transactions.aborted_before(_MAX_OFFSET))


def load(snapshots: Mapping[str, bytes]) -> Transactions:
    """Returns the state that the snapshots of a partition contain.

    Raises:
        ValueError: a snapshot has an unknown format version.
    """
    producers, aborted = dict[int, ProducerState](), list[AbortedTransaction]()
    for name, snapshot in snapshots.items():
        if snapshot[0] != _FORMAT:
            raise ValueError(f"producer snapshot {name} has unknown format {snapshot[0]}")
        if name.startswith("p"):
            producers[int(name[1:])] = _unpack(snapshot)
        else:
            aborted.append(AbortedTransaction(*_ABORTED.unpack(snapshot)[1:]))
    return Transactions(producers, aborted)


def names_of(producer_ids: Iterable[int], aborted: Iterable[AbortedTransaction] = ()) -> list[str]:
    """Returns the names of snapshots to delete."""
    return [*map(producer_name, producer_ids), *map(aborted_name, aborted)]


def _packed(
    producers: Mapping[int, ProducerState], aborted: Iterable[AbortedTransaction]
) -> dict[str, bytes]:
    snapshots = {producer_name(id_): _pack(state) for id_, state in producers.items()}
    return snapshots | {
        aborted_name(transaction): _ABORTED.pack(_FORMAT, *transaction) for transaction in aborted
    }


def _pack(state: ProducerState) -> bytes:
    head = _PRODUCER.pack(
        _FORMAT,
        state.epoch,
        state.timestamp,
        state.transaction_start,
        state.marker,
        state.coordinator_epoch,
    )
    return head + b"".join(_SENT.pack(*sent) for sent in state.batches)


def _unpack(snapshot: bytes) -> ProducerState:
    _, epoch, timestamp, start, marker, coordinator_epoch = _PRODUCER.unpack_from(snapshot)
    batches = tuple(map(SentBatch._make, _SENT.iter_unpack(snapshot[_PRODUCER.size :])))
    return ProducerState(epoch, batches, timestamp, start, marker, coordinator_epoch)
