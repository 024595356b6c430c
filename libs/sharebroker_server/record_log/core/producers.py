"""What a partition remembers of each producer: sequences, epochs, its open transaction. Rules over values.

Source: Kafka's ProducerStateManager and ProducerAppendInfo (KIP-98, KIP-360, KIP-890). Sequence numbers are
32-bit without the sign and go on with 0 behind 2**31 - 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader

RETAINED: Final = 5
"""Batches remembered of a producer: so many requests may be in flight."""

_SEQUENCES: Final = 1 << 31


class UnverifiedError(KafkaError):
    """The first batch of a transaction, which its coordinator has to confirm first (INVALID_TXN_STATE)."""


class SentBatch(NamedTuple):
    """A batch of a producer as it was appended; `timestamp` is when, in ms."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState(NamedTuple):
    """A producer as a partition knows it.

    `batches` are its newest, oldest first, all of its `epoch`. `timestamp` is when it last wrote, in ms.
    `transaction_start` is the first offset of its open transaction, `marker` the offset of its last marker,
    `coordinator_epoch` that of who wrote it; -1 for none.
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
    """A transaction's coordinator confirmed that it goes on here, after the log ended at `log_end`.

    `renews_epoch`: each transaction has a producer epoch of its own (transaction.version 2, KIP-890).
    """

    log_end: int
    renews_epoch: bool


class Marker(NamedTuple):
    """The end of a transaction in one partition. `producer_epoch` may be higher than that of its records."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


def repeated(state: ProducerState | None, header: BatchHeader) -> SentBatch | None:
    """The batch that this one repeats: its answer was lost, and it is answered with the same offsets."""
    if state is None or state.epoch != header.producer_epoch:
        return None
    span = header.base_sequence, _last_sequence(header)
    return next((sent for sent in state.batches if sent[:2] == span), None)


def check_batch(state: ProducerState | None, header: BatchHeader, verified: Verified | None) -> None:
    """Refuse what must not be appended.

    A producer nobody remembers may begin with any sequence: it may have been silent for long.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER,
            INVALID_TXN_STATE, UnverifiedError.
    """
    if state is not None:
        _check_epoch(state, header.producer_id, header.producer_epoch)
        _check_sequence(state, header)
        if state.in_transaction and not header.transactional:
            raise _refused(ErrorCode.INVALID_TXN_STATE, header, "is in a transaction, the batch is not")
    if header.transactional and not is_open(state, header):
        _check_verified(state, header, verified)


def is_open(state: ProducerState | None, header: BatchHeader) -> bool:
    """Whether the batch goes on with a transaction that has records here already."""
    return state is not None and state.in_transaction and state.epoch == header.producer_epoch


def after_batch(
    state: ProducerState | None, header: BatchHeader, base_offset: int, now_ms: int
) -> ProducerState:
    """The producer once the batch is appended at `base_offset`."""
    sent = SentBatch(
        header.base_sequence,
        _last_sequence(header),
        base_offset,
        base_offset + header.last_offset_delta,
        now_ms,
    )
    if state is None:
        state = ProducerState(header.producer_epoch)
    earlier = state.batches[1 - RETAINED :] if state.epoch == header.producer_epoch else ()
    start = state.transaction_start
    if start < 0 and header.transactional:
        start = base_offset
    return ProducerState(
        header.producer_epoch, (*earlier, sent), now_ms, start, state.marker, state.coordinator_epoch
    )


def after_marker(state: ProducerState | None, marker: Marker, offset: int, now_ms: int) -> ProducerState:
    """The producer once the marker is appended at `offset`; a higher epoch begins with sequence 0.

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
    # A marker since then ended what was verified: this batch would open a transaction that nobody ends.
    if verified is None or (state is not None and state.marker >= verified.log_end):
        raise UnverifiedError(
            ErrorCode.INVALID_TXN_STATE, f"No transaction of producer {header.producer_id} is going on here."
        )
    if state is None and verified.renews_epoch and header.base_sequence:
        raise _refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header, "is expected to send 0")


def _check_sequence(state: ProducerState, header: BatchHeader) -> None:
    batches = state.batches if state.epoch == header.producer_epoch else ()
    expected = _after(batches[-1].last_sequence, 1) if batches else 0
    if header.base_sequence == expected:
        return
    # With fewer than are retained all of them are known, and this one was never here.
    if len(batches) == RETAINED and _is_before(_last_sequence(header), batches[0].first_sequence):
        raise _refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, header, "sent this batch long ago")
    raise _refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header, f"is expected to send {expected}")


def _last_sequence(header: BatchHeader) -> int:
    return _after(header.base_sequence, header.last_offset_delta)


def _after(sequence: int, count: int) -> int:
    return (sequence + count) % _SEQUENCES


def _is_before(sequence: int, other: int) -> bool:
    """Whether it lies in the half of the circle of sequences that comes before `other`."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2


def _refused(code: ErrorCode, header: BatchHeader, why: str) -> KafkaError:
    who = f"Producer {header.producer_id} (epoch {header.producer_epoch}, sequence {header.base_sequence})"
    return KafkaError(code, f"{who} {why}.")
