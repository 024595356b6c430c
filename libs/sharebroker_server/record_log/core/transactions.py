"""The transactions of a partition: open and aborted ones, and the producers.

Source: Kafka's ProducerStateManager, TransactionIndex and `UnifiedLog.lastStableOffset`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from sharebroker_server.record_log.core.batch import BatchHeader
from sharebroker_server.record_log.core.producers import (
    Marker,
    ProducerState,
    SentBatch,
    Verified,
    after_batch,
    after_marker,
    check_batch,
    find_repeated,
    is_open,
)


class AbortedTransaction(NamedTuple):
    """An aborted transaction from its first record to its marker, both inclusive.

    `stable_offset` was the last stable offset after it ended: transactions that end later start there or
    above.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class Transactions:
    """The durable producers and transactions of one partition; only drafts change them."""

    __slots__ = ("_aborted", "_open", "_producers")

    def __init__(
        self,
        producers: Mapping[int, ProducerState] | None = None,
        aborted: Iterable[AbortedTransaction] = (),
    ) -> None:
        self._producers = dict(producers or {})
        self._aborted = sorted(aborted, key=attrgetter("last_offset"))
        starts = {
            id_: state.transaction_start for id_, state in self._producers.items() if state.in_transaction
        }
        # Ordered by first offset, as later ones are.
        self._open = dict(sorted(starts.items(), key=lambda item: item[1]))

    def producer(self, producer_id: int) -> ProducerState | None:
        """Returns the state of a producer, or None."""
        return self._producers.get(producer_id)

    def producers(self) -> Mapping[int, ProducerState]:
        """Returns the state of every producer."""
        return self._producers

    def first_unstable_offset(self) -> int | None:
        """Returns the first offset of the earliest open transaction, None without one."""
        return next(iter(self._open.values()), None)

    def is_open(self, header: BatchHeader) -> bool:
        """Returns whether the batch continues a transaction that already has records here."""
        return is_open(self._producers.get(header.producer_id), header)

    def aborted_in(self, first: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions with an offset in [first, end), in the order of their markers."""
        found = []
        aborted = self._aborted
        for index in range(bisect_left(aborted, first, key=attrgetter("last_offset")), len(aborted)):
            transaction = aborted[index]
            if transaction.first_offset < end:
                found.append(transaction)
            if transaction.stable_offset >= end:
                break
        return found

    def draft(self) -> Draft:
        """Returns a draft for the changes of a group of appends."""
        return Draft(self._producers, self._open)

    def commit(self, draft: Draft) -> None:
        """Applies a draft that is durable now."""
        self._producers.update(draft.producers)
        self._aborted += draft.aborted
        self._open = draft.open

    def expired(self, before_ms: int) -> list[int]:
        """Returns the producers whose last write was before `before_ms` and that have no open transaction."""
        return [
            id_
            for id_, state in self._producers.items()
            if state.timestamp < before_ms and not state.in_transaction
        ]

    def remove_producers(self, producer_ids: Iterable[int]) -> None:
        """Removes the state of these producers."""
        for producer_id in producer_ids:
            self._producers.pop(producer_id, None)

    def aborted_before(self, offset: int) -> Sequence[AbortedTransaction]:
        """Returns the aborted transactions whose last offset is below; their records can no
        longer be read.
        """
        return self._aborted[: self._below(offset)]

    def drop_before(self, offset: int) -> None:
        """Removes the aborted transactions that end below the offset."""
        del self._aborted[: self._below(offset)]

    def _below(self, offset: int) -> int:
        return bisect_left(self._aborted, offset, key=attrgetter("last_offset"))


class Draft:
    """The changes of pending appends; each append sees the changes of those before it."""

    __slots__ = ("_base", "aborted", "open", "producers")

    def __init__(self, base: Mapping[int, ProducerState], opened: dict[int, int]) -> None:
        self._base = base
        self.open = opened
        self.producers: dict[int, ProducerState] = {}
        self.aborted: list[AbortedTransaction] = []

    def state(self, producer_id: int) -> ProducerState | None:
        """Returns the state of a producer after the earlier appends."""
        return self.producers.get(producer_id) or self._base.get(producer_id)

    def append(
        self, header: BatchHeader, offset: int, now_ms: int, verified: Verified | None
    ) -> SentBatch | None:
        """Adds a producer's batch at `offset`; returns the earlier batch if this one repeats it.

        Raises:
            KafkaError: as `check_batch`.
        """
        producer_id, state = header.producer_id, self.state(header.producer_id)
        earlier = find_repeated(state, header)
        if earlier is None:
            check_batch(state, header, verified)
            state = self.producers[producer_id] = after_batch(state, header, offset, now_ms)
            if state.in_transaction and producer_id not in self.open:
                self.open = {**self.open, producer_id: offset}
        return earlier

    def end(self, marker: Marker, offset: int, now_ms: int) -> None:
        """Adds a marker at `offset`.

        Raises:
            KafkaError: as `after_marker`.
        """
        producer_id = marker.producer_id
        self.producers[producer_id] = after_marker(self.state(producer_id), marker, offset, now_ms)
        if producer_id in self.open:
            start = self.open[producer_id]
            self.open = {id_: first for id_, first in self.open.items() if id_ != producer_id}
            if not marker.commit:
                stable = next(iter(self.open.values()), offset + 1)
                self.aborted.append(AbortedTransaction(producer_id, start, offset, stable))


def aborted_spans(
    spans: Iterable[tuple[int, int, int]], aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[int, int]]:
    """Yields the aborted offset ranges among (producer id, first, last) of transactional batches."""
    for producer_id, first, last in spans:
        if any(
            transaction.producer_id == producer_id
            and transaction.first_offset <= first
            and last < transaction.last_offset
            for transaction in aborted
        ):
            yield first, last
