"""Producers and aborted transactions as bytes: small notes by name, kept beside a partition's batches.

"p<producer id>" is a producer, "a<last offset>" an aborted transaction. The first byte names the format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_server.record_log.core.producers import ProducerState, SentBatch
from sharebroker_server.record_log.core.transactions import AbortedTransaction, Draft, Transactions

_FORMAT: Final = 0
_EVERY_OFFSET: Final = 1 << 63
_PRODUCER: Final = struct.Struct(">Bhqqqi")
_SENT: Final = struct.Struct(">iiqqq")
_ABORTED: Final = struct.Struct(">Bqqqq")


def producer_name(producer_id: int) -> str:
    """The name of a producer's note."""
    return f"p{producer_id}"


def aborted_name(transaction: AbortedTransaction) -> str:
    """The name of an aborted transaction's note."""
    return f"a{transaction.last_offset}"


def of_draft(draft: Draft) -> dict[str, bytes]:
    """The notes to write together with the batches of a draft."""
    return _packed(draft.producers, draft.aborted)


def of(transactions: Transactions) -> dict[str, bytes]:
    """The notes of all that is durable."""
    return _packed(transactions.producers(), transactions.aborted_before(_EVERY_OFFSET))


def load(notes: Mapping[str, bytes]) -> Transactions:
    """What the notes of a partition say.

    Raises:
        ValueError: a note of a format that this version does not know.
    """
    producers, aborted = dict[int, ProducerState](), list[AbortedTransaction]()
    for name, note in notes.items():
        if note[0] != _FORMAT:
            raise ValueError(f"note {name} has format {note[0]}")
        if name.startswith("p"):
            producers[int(name[1:])] = _unpack(note)
        else:
            aborted.append(AbortedTransaction(*_ABORTED.unpack(note)[1:]))
    return Transactions(producers, aborted)


def names_of(producer_ids: Iterable[int], aborted: Iterable[AbortedTransaction] = ()) -> list[str]:
    """The names of notes to forget."""
    return [*map(producer_name, producer_ids), *map(aborted_name, aborted)]


def _packed(
    producers: Mapping[int, ProducerState], aborted: Iterable[AbortedTransaction]
) -> dict[str, bytes]:
    notes = {producer_name(id_): _pack(state) for id_, state in producers.items()}
    return notes | {aborted_name(each): _ABORTED.pack(_FORMAT, *each) for each in aborted}


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


def _unpack(note: bytes) -> ProducerState:
    _, epoch, timestamp, start, marker, coordinator_epoch = _PRODUCER.unpack_from(note)
    batches = tuple(map(SentBatch._make, _SENT.iter_unpack(note[_PRODUCER.size :])))
    return ProducerState(epoch, batches, timestamp, start, marker, coordinator_epoch)
