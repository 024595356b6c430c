"""What each request makes of a transaction. Pure; a refusal is a KafkaError.

Source: Kafka's TransactionCoordinator and TransactionMetadata. A producer of transaction.version 2 gets a new
epoch with the end of each transaction, so that nothing late of the last one can count for the next.
"""

from __future__ import annotations

from collections.abc import Callable

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.transactions.commands import (
    Aborting,
    AddPartitions,
    End,
    Initialize,
    Producer,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.model import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING,
    LAST_EPOCH,
    NONE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    RENEWS_EPOCH,
    Transaction,
)

NewId = Callable[[], int]


def initialize(
    transaction: Transaction | None, command: Initialize, new_id: NewId, now_ms: int
) -> tuple[Transaction, Producer | Aborting]:
    """The transactional id in new hands.

    Raises PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if transaction is None:
        begun = Transaction(new_id(), 0, command.timeout_ms, updated_ms=now_ms)
        return begun, producer_of(begun)
    if command.expected is not None and not _may_expect(transaction, command.expected):
        raise fenced(command.transactional_id)
    if transaction.state in ENDING:
        raise concurrent(command.transactional_id)
    if transaction.state is ONGOING:
        return fence(transaction, now_ms), Aborting()
    renewed = _renewed(transaction, command, new_id, now_ms)
    return renewed, producer_of(renewed)


def add_partitions(
    transaction: Transaction | None, command: AddPartitions, now_ms: int
) -> Transaction | None:
    """The transaction with the partitions; None where that changes nothing.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = current(transaction, command.transactional_id, command.producer)
    if command.partitions <= transaction.partitions:
        return None
    if transaction.state is ONGOING:
        return transaction.moved(
            ONGOING, now_ms, partitions=transaction.partitions | command.partitions, version=command.version
        )
    return transaction.moved(
        ONGOING, now_ms, partitions=command.partitions, start_ms=now_ms, version=command.version
    )


def verify_partitions(
    transaction: Transaction | None, command: VerifyPartitions
) -> frozenset[TopicIdPartition]:
    """Those of the partitions that are part of the open transaction.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = current(transaction, command.transactional_id, command.producer)
    return command.partitions & transaction.partitions if transaction.state is ONGOING else frozenset()


def end(
    transaction: Transaction | None, command: End, new_id: NewId, now_ms: int
) -> tuple[Transaction | None, Producer]:
    """The transaction that is to be ended, None where it was ended this way before; and who goes on.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    """
    if transaction is None:
        raise _unmapped(command.transactional_id)
    again = _is_repeated(transaction, command)
    if not again:
        _check_producer(transaction, command.transactional_id, command.producer)
    if transaction.state is ONGOING:
        if again:  # its answer was lost, but the next transaction has begun: whoever asks was replaced
            raise fenced(command.transactional_id)
        ending = _ending(transaction, command, new_id, now_ms)
        return ending, _next_of(ending)
    if transaction.state in ENDING:
        of_the_next = not again and min(transaction.version, command.version) >= RENEWS_EPOCH
        if not of_the_next and (transaction.state is PREPARE_COMMIT) is not command.commit:
            raise _wrong_state(transaction, command)
        raise concurrent(command.transactional_id)
    return _end_idle(transaction, command, new_id, now_ms, again=again)


def fence(transaction: Transaction, now_ms: int) -> Transaction:
    """An open transaction, being aborted without its producer, whose epoch is over."""
    return transaction.moved(
        PREPARE_ABORT,
        now_ms,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=NONE,
    )


def ended(transaction: Transaction, now_ms: int) -> Transaction:
    """A transaction that was being ended, when every partition has its marker."""
    to = COMPLETE_COMMIT if transaction.state is PREPARE_COMMIT else COMPLETE_ABORT
    following = _next_of(transaction)
    rotated = following.producer_id != transaction.producer_id
    return transaction.moved(
        to,
        now_ms,
        producer_id=following.producer_id,
        producer_epoch=following.producer_epoch,
        previous_producer_id=transaction.producer_id if rotated else transaction.previous_producer_id,
        next_producer_id=NONE,
        partitions=frozenset(),
    )


def producer_of(transaction: Transaction) -> Producer:
    """Who writes for the transactional id."""
    return Producer(transaction.producer_id, transaction.producer_epoch)


def current(transaction: Transaction | None, transactional_id: str, producer: Producer) -> Transaction:
    """The transaction that the producer may go on with.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if transaction is None:
        raise _unmapped(transactional_id)
    # With the end of this transaction the producer may have got another id.
    if transaction.state in ENDING and _next_of(transaction) == producer:
        raise concurrent(transactional_id)
    _check_producer(transaction, transactional_id, producer)
    return transaction


def fenced(transactional_id: str) -> KafkaError:
    """Somebody else has taken the transactional id over."""
    return KafkaError(
        ErrorCode.PRODUCER_FENCED, f"A newer producer writes for transactional id {transactional_id!r}."
    )


def concurrent(transactional_id: str) -> KafkaError:
    """A transaction is being ended."""
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"The last transaction of {transactional_id!r} is still being ended.",
        retry_after=0.02,
    )


def _may_expect(transaction: Transaction, expected: Producer) -> bool:
    """Whether the caller may be the last who wrote; its epoch is compared when it gets a new one."""
    if expected.producer_id == transaction.producer_id:
        return True
    # The answer with the new producer id may have been lost.
    return expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= LAST_EPOCH


def _renewed(transaction: Transaction, command: Initialize, new_id: NewId, now_ms: int) -> Transaction:
    expected = command.expected
    epoch = None if expected is None else expected.producer_epoch
    kept = NONE if epoch is None else transaction.producer_epoch
    if transaction.exhausted and epoch in (None, transaction.producer_epoch):
        producer_id, producer_epoch, last = new_id(), 0, kept
    elif epoch in (None, transaction.producer_epoch):
        producer_id, producer_epoch, last = transaction.producer_id, transaction.producer_epoch + 1, kept
    elif epoch == transaction.last_producer_epoch:  # the answer was lost
        producer_id, producer_epoch, last = transaction.producer_id, transaction.producer_epoch, epoch
    else:
        raise fenced(command.transactional_id)
    rotated = producer_id != transaction.producer_id
    return transaction.moved(
        EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last,
        previous_producer_id=transaction.producer_id if rotated else transaction.previous_producer_id,
        timeout_ms=command.timeout_ms,
        start_ms=NONE,
    )


def _check_producer(transaction: Transaction, transactional_id: str, producer: Producer) -> None:
    if producer.producer_id != transaction.producer_id:
        raise _unmapped(transactional_id)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced(transactional_id)


def _is_repeated(transaction: Transaction, command: End) -> bool:
    """Whether the end raised the epoch before, and its answer was lost."""
    if command.version < RENEWS_EPOCH:
        return False
    asked, now = command.producer, producer_of(transaction)
    if asked.producer_id == now.producer_id:
        return asked.producer_epoch + 1 == now.producer_epoch == _raised(transaction)
    return (
        asked.producer_id == transaction.previous_producer_id
        and asked.producer_epoch == LAST_EPOCH
        and now.producer_epoch == 0
    )


def _raised(transaction: Transaction) -> int:
    """The epoch that the producer got for its last one on its own wish."""
    return transaction.last_producer_epoch + 1


def _ending(transaction: Transaction, command: End, new_id: NewId, now_ms: int) -> Transaction:
    to = PREPARE_COMMIT if command.commit else PREPARE_ABORT
    if command.version < RENEWS_EPOCH:
        return transaction.moved(to, now_ms, version=command.version)
    return transaction.moved(
        to,
        now_ms,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch,
        next_producer_id=new_id() if transaction.exhausted else NONE,
        version=command.version,
    )


def _end_idle(
    transaction: Transaction, command: End, new_id: NewId, now_ms: int, *, again: bool
) -> tuple[Transaction | None, Producer]:
    """The end of a transaction that was ended before, or never had a record."""
    renews = command.version >= RENEWS_EPOCH
    as_before = transaction.state is (COMPLETE_COMMIT if command.commit else COMPLETE_ABORT)
    if as_before and (again or not renews):
        return None, producer_of(transaction)
    if command.commit or again or not renews:
        raise _wrong_state(transaction, command)
    # An abort of nothing: what the producer may have sent all the same is fenced by the new epoch.
    exhausted = transaction.exhausted
    aborted = transaction.moved(
        COMPLETE_ABORT,
        now_ms,
        producer_id=new_id() if exhausted else transaction.producer_id,
        producer_epoch=0 if exhausted else transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch,
        previous_producer_id=transaction.producer_id if exhausted else transaction.previous_producer_id,
        version=command.version,
    )
    return aborted, producer_of(aborted)


def _next_of(transaction: Transaction) -> Producer:
    """Who goes on when a transaction has been ended."""
    if transaction.next_producer_id != NONE:
        return Producer(transaction.next_producer_id, 0)
    return producer_of(transaction)


def _unmapped(transactional_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"The producer id does not belong to transactional id {transactional_id!r}.",
    )


def _wrong_state(transaction: Transaction, command: End) -> KafkaError:
    what = "committed" if command.commit else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"The transaction of {command.transactional_id!r} is {transaction.state.value}: it cannot be {what}.",
    )
