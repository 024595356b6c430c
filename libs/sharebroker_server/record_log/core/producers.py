"""The state of one producer in a partition: sequence numbers, epochs, the open transaction.

Source: Kafka's ProducerStateManager and ProducerAppendInfo (KIP-98, KIP-360, KIP-890). Sequence numbers are
unsigned 31-bit and continue with 0 after 2**31 - 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.sequences import SEQUENCES, sequence_after
from sharebroker_server.record_log.core.batch import BatchHeader

RETAINED_BATCHES: Final = 5
"""The number of batches stored per producer, which is the largest number of requests in flight."""


class UnverifiedError(KafkaError):
    """The first batch of a transaction that its coordinator has not confirmed yet (INVALID_TXN_STATE)."""


class SentBatch(NamedTuple):
    """A batch of a producer as it was appended, at `timestamp` (ms)."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState(NamedTuple):
    """The state of a producer in a partition.

    `batches` are its newest, oldest first, all of its `epoch`. `timestamp` is the time of its last write, in
    ms. `transaction_start` is the first offset of its open transaction, `marker` the offset of its last
    marker, and `coordinator_epoch` the epoch of the coordinator that wrote the marker; -1 for none.
    """

    epoch: int
    batches: tuple[SentBatch, ...] = ()
    timestamp: int = -1
    transaction_start: int = -1
    marker: int = -1
    coordinator_epoch: int = -1

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.transaction_start >= 0


class Verified(NamedTuple):
    """The coordinator's confirmation that a transaction is open, requested when the log ended at `log_end`.

    With `renews_epoch` each transaction has its own producer epoch (transaction.version 2, KIP-890).
    """

    log_end: int
    renews_epoch: bool


class Marker(NamedTuple):
    """The end of a transaction in one partition. `producer_epoch` may be higher than that of its records."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


def find_repeated(state: ProducerState | None, header: BatchHeader) -> SentBatch | None:
    """Returns the stored batch that this one repeats, or None.

    If there is one, the response to the earlier request was lost.
    """
    if state is None or state.epoch != header.producer_epoch:
        return None
    span = header.base_sequence, _last_sequence(header)
    return next((sent for sent in state.batches if sent[:2] == span), None)


def skips_sequences(state: ProducerState | None, header: BatchHeader) -> bool:
    """Returns whether the batch leaves a gap: the batch that must precede it is not in the log.

    An unknown producer, and one with a new epoch, starts with sequence 0.
    """
    if state is not None and header.producer_epoch < state.epoch:
        return False
    return _is_before(_next_sequence(state, header.producer_epoch), header.base_sequence)


def check_batch(state: ProducerState | None, header: BatchHeader, verified: Verified | None) -> None:
    """Raises an error if the batch must not be appended.

    An unknown producer may start with any sequence: its state may have expired.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER,
            INVALID_TXN_STATE, UnverifiedError.
    """
    if state is not None:
        _check_epoch(state, header.producer_id, header.producer_epoch)
        _check_sequence(state, header)
        if state.in_transaction and not header.transactional:
            raise _rejected(ErrorCode.INVALID_TXN_STATE, header, "is in a transaction, but the batch is not")
    if header.transactional and not is_open(state, header):
        _check_verified(state, header, verified)


def is_open(state: ProducerState | None, header: BatchHeader) -> bool:
    """Returns whether the batch continues a transaction that already has records here."""
    return state is not None and state.in_transaction and state.epoch == header.producer_epoch


def after_batch(
    state: ProducerState | None, header: BatchHeader, base_offset: int, now_ms: int
) -> ProducerState:
    """Returns the producer's state after the batch is appended at `base_offset`."""
    sent = SentBatch(
        header.base_sequence,
        _last_sequence(header),
        base_offset,
        base_offset + header.last_offset_delta,
        now_ms,
    )
    if state is None:
        state = ProducerState(header.producer_epoch)
    earlier = state.batches[1 - RETAINED_BATCHES :] if state.epoch == header.producer_epoch else ()
    start = state.transaction_start
    if start < 0 and header.transactional:
        start = base_offset
    return ProducerState(
        header.producer_epoch, (*earlier, sent), now_ms, start, state.marker, state.coordinator_epoch
    )


def after_marker(state: ProducerState | None, marker: Marker, offset: int, now_ms: int) -> ProducerState:
    """Returns the producer's state after the marker is appended at `offset`.

    A higher epoch starts with sequence 0.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
    """
    if state is None:
        state = ProducerState(marker.producer_epoch)
    _check_epoch(state, marker.producer_id, marker.producer_epoch)
    if marker.coordinator_epoch < state.coordinator_epoch:
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Coordinator epoch {marker.coordinator_epoch} is older than {state.coordinator_epoch}.",
        )
    return state._replace(
        epoch=marker.producer_epoch,
        batches=state.batches if state.epoch == marker.producer_epoch else (),
        timestamp=now_ms,
        transaction_start=-1,
        marker=offset,
        coordinator_epoch=marker.coordinator_epoch,
    )


def _check_epoch(state: ProducerState, producer_id: int, epoch: int) -> None:
    if epoch < state.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Producer {producer_id} has epoch {state.epoch}; {epoch} is older.",
        )


def _check_verified(state: ProducerState | None, header: BatchHeader, verified: Verified | None) -> None:
    # A later marker ended the verified transaction: this batch would open a transaction without an end.
    if verified is None or (state is not None and state.marker >= verified.log_end):
        raise UnverifiedError(
            ErrorCode.INVALID_TXN_STATE,
            f"Producer {header.producer_id} has no open transaction in this partition.",
        )
    if state is None and verified.renews_epoch and header.base_sequence:
        raise _rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header, "must start with sequence 0")


def _check_sequence(state: ProducerState, header: BatchHeader) -> None:
    expected = _next_sequence(state, header.producer_epoch)
    if header.base_sequence == expected:
        return
    batches = state.batches if state.epoch == header.producer_epoch else ()
    # With fewer batches than the limit, all are stored, so this one was never appended.
    if len(batches) == RETAINED_BATCHES and _is_before(_last_sequence(header), batches[0].first_sequence):
        raise _rejected(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, header, "sent this batch before")
    raise _rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header, f"must send sequence {expected}")


def _next_sequence(state: ProducerState | None, epoch: int) -> int:
    if state is None or state.epoch != epoch or not state.batches:
        return 0
    return sequence_after(state.batches[-1].last_sequence, 1)


def _last_sequence(header: BatchHeader) -> int:
    return sequence_after(header.base_sequence, header.last_offset_delta)


def _is_before(sequence: int, other: int) -> bool:
    """Returns whether `sequence` is in the half of the sequence circle before `other`."""
    return 0 < (other - sequence) % SEQUENCES < SEQUENCES // 2


def _rejected(code: ErrorCode, header: BatchHeader, reason: str) -> KafkaError:
    producer = (
        f"Producer {header.producer_id} (epoch {header.producer_epoch}, sequence {header.base_sequence})"
    )
    return KafkaError(code, f"{producer} {reason}.")
