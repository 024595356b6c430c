"""The transactions of a partition: which are open, which were aborted, and who writes.

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
    is_open,
    repeated,
)


class AbortedTransaction(NamedTuple):
    """An aborted transaction from its first record to its marker, both inclusive.

    Transactions that end later begin at `stable_offset` or above: it was the last stable offset then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class Transactions:
    """Producers and transactions of one partition, as far as they are durable. Changed by drafts only."""

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
        # Ordered by first offset, as those that are opened later are anyway.
        self._open = dict(sorted(starts.items(), key=lambda item: item[1]))

    def producer(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def producers(self) -> Mapping[int, ProducerState]:
        """Every producer that is remembered."""
        return self._producers

    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction begins; None when none is open."""
        return next(iter(self._open.values()), None)

    def is_open(self, header: BatchHeader) -> bool:
        """Whether the batch goes on with a transaction that has records here already."""
        return is_open(self._producers.get(header.producer_id), header)

    def aborted_in(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with an offset in [first, end), in the order of their markers."""
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
        """What a group of appends makes of this."""
        return Draft(self._producers, self._open)

    def commit(self, draft: Draft) -> None:
        """Take over what is durable now."""
        self._producers.update(draft.producers)
        self._aborted += draft.aborted
        self._open = draft.open

    def expired(self, before_ms: int) -> list[int]:
        """Producers that wrote last before then and have no transaction open."""
        return [
            id_
            for id_, state in self._producers.items()
            if state.timestamp < before_ms and not state.in_transaction
        ]

    def forget(self, producer_ids: Iterable[int]) -> None:
        """Remember these producers no longer."""
        for producer_id in producer_ids:
            self._producers.pop(producer_id, None)

    def aborted_before(self, offset: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions whose last offset lies below; nobody can read their records any more."""
        return self._aborted[: self._below(offset)]

    def drop_before(self, offset: int) -> None:
        """Forget the aborted transactions that end below the offset."""
        del self._aborted[: self._below(offset)]

    def _below(self, offset: int) -> int:
        return bisect_left(self._aborted, offset, key=attrgetter("last_offset"))


class Draft:
    """Changes by appends that are on their way: each sees what those before it changed."""

    __slots__ = ("_base", "aborted", "open", "producers")

    def __init__(self, base: Mapping[int, ProducerState], opened: dict[int, int]) -> None:
        self._base = base
        self.open = opened
        self.producers: dict[int, ProducerState] = {}
        self.aborted: list[AbortedTransaction] = []

    def state(self, producer_id: int) -> ProducerState | None:
        """A producer as it will be."""
        return self.producers.get(producer_id) or self._base.get(producer_id)

    def append(
        self, header: BatchHeader, offset: int, now_ms: int, verified: Verified | None
    ) -> SentBatch | None:
        """Take a producer's batch in at `offset`; the earlier one where it was appended before.

        Raises:
            KafkaError: as `check_batch`.
        """
        producer_id, state = header.producer_id, self.state(header.producer_id)
        earlier = repeated(state, header)
        if earlier is None:
            check_batch(state, header, verified)
            state = self.producers[producer_id] = after_batch(state, header, offset, now_ms)
            if state.in_transaction and producer_id not in self.open:
                self.open = {**self.open, producer_id: offset}
        return earlier

    def end(self, marker: Marker, offset: int, now_ms: int) -> None:
        """Take a marker in at `offset`.

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
    """Of (producer id, first, last) of transactional batches, the offsets of those that were aborted."""
    for producer_id, first, last in spans:
        if any(
            transaction.producer_id == producer_id
            and transaction.first_offset <= first
            and last < transaction.last_offset
            for transaction in aborted
        ):
            yield first, last
