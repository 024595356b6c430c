"""The effect of each request on a transaction. Pure functions; a rejection is a KafkaError.

Source: Kafka's TransactionCoordinator and TransactionMetadata. With transaction.version 2 a producer gets a
new epoch with the end of each transaction, so that a delayed request of one cannot affect the next.

A session of planned batches is a transactional id. It stores the staged verdicts of one batch, also after
they were carried out: a repeated commit must not release records again that may be part of the next batch by
then. See services/decisions/0044.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.transactions import commands as c
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
    Staged,
    Transaction,
    Verdict,
)
from sharebroker_server.offset_spans import split_by_spans

NewId = Callable[[], int]


MOST_STAGED: Final = 20_000
"""The limit of offset spans staged for a batch."""


class Step(NamedTuple):
    """The input of a rule besides the transaction and the command."""

    new_id: NewId
    now_ms: int


def initialize(
    transaction: Transaction | None, command: c.InitProducerId, step: Step
) -> tuple[Transaction, c.ProducerIdAndEpoch | c.Aborting]:
    """Gives the transactional id to a new producer.

    Raises PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    new_id, now_ms = step
    if transaction is None:
        begun = Transaction(new_id(), 0, command.timeout_ms, updated_ms=now_ms)
        return begun, producer_of(begun)
    if command.expected is not None and not _may_expect(transaction, command.expected):
        raise fenced(command.transactional_id)
    if transaction.state in ENDING:
        raise concurrent(command.transactional_id)
    if transaction.state is ONGOING:
        return fence(transaction, now_ms), c.Aborting()
    renewed = _renewed(transaction, command, new_id, now_ms)
    return renewed, producer_of(renewed)


def add_partitions(
    transaction: Transaction | None, command: c.AddPartitions, step: Step
) -> tuple[Transaction | None, frozenset[TopicIdPartition]]:
    """Returns the transaction with the partitions added, None if that changes nothing; and the partitions.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = current(transaction, command.transactional_id, command.producer)
    added, version, now_ms = command.partitions, command.version, step.now_ms
    if added <= transaction.partitions:
        return None, added
    if transaction.state is ONGOING:
        partitions = transaction.partitions | added
        return transaction.moved(ONGOING, now_ms, partitions=partitions, version=version), added
    begun = transaction.moved(ONGOING, now_ms, partitions=added, start_ms=now_ms, version=version)
    return begun, added


def verify_partitions(
    transaction: Transaction | None, command: c.VerifyPartitions, _: Step
) -> tuple[None, frozenset[TopicIdPartition]]:
    """Returns the partitions that are part of the open transaction.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = current(transaction, command.transactional_id, command.producer)
    added = transaction.partitions if transaction.state is ONGOING else frozenset[TopicIdPartition]()
    return None, command.partitions & added


def end(
    transaction: Transaction | None, command: c.End, step: Step
) -> tuple[Transaction | None, c.ProducerIdAndEpoch]:
    """Returns the decided transaction, None if it ended this way before; and the next transaction's producer.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    """
    if transaction is None:
        raise _unmapped(command.transactional_id)
    repeated = _is_repeated(transaction, command)
    if not repeated:
        _check_producer(transaction, command.transactional_id, command.producer)
    if transaction.state is ONGOING:
        if repeated:  # the next transaction is open: another producer instance has replaced the caller
            raise fenced(command.transactional_id)
        ending = _ending(transaction, command, *step)
        return ending, _next_of(ending)
    if transaction.state in ENDING:
        of_the_next = not repeated and min(transaction.version, command.version) >= RENEWS_EPOCH
        if not of_the_next and (transaction.state is PREPARE_COMMIT) is not command.commit:
            raise _wrong_state(transaction, command)
        raise concurrent(command.transactional_id)
    return _end_idle(transaction, command, *step, repeated=repeated)


def read_ending(
    transaction: Transaction | None, _: c.ReadEnding, __: Step
) -> tuple[None, Transaction | None]:
    """Returns the transaction if it is decided and not completed."""
    return None, transaction if transaction and transaction.state in ENDING else None


def complete(
    transaction: Transaction | None, command: c.Ended, step: Step
) -> tuple[Transaction | None, None]:
    """Returns the decided transaction as completed; None if it was completed before."""
    decided = transaction is not None and transaction.state in ENDING
    if transaction is None or not decided or producer_of(transaction) != command.producer:
        return None, None
    return ended(transaction, step.now_ms), None


def describe(transaction: Transaction | None, command: c.Describe, _: Step) -> tuple[None, Transaction]:
    """Returns the transaction. Raises TRANSACTIONAL_ID_NOT_FOUND."""
    if transaction is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            f"There is no transactional id {command.transactional_id!r}.",
        )
    return None, transaction


def fence(transaction: Transaction, now_ms: int) -> Transaction:
    """Returns an open transaction as being aborted by the coordinator; its producer is fenced."""
    return transaction.moved(
        PREPARE_ABORT,
        now_ms,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=NONE,
    )


def ended(transaction: Transaction, now_ms: int) -> Transaction:
    """Returns a decided transaction as completed: every partition has its marker."""
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


def producer_of(transaction: Transaction) -> c.ProducerIdAndEpoch:
    """Returns the current producer of the transactional id."""
    return c.ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def current(
    transaction: Transaction | None, transactional_id: str, producer: c.ProducerIdAndEpoch
) -> Transaction:
    """Returns the transaction if the producer may continue it.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if transaction is None:
        raise _unmapped(transactional_id)
    # With the end of this transaction the producer may have received another id.
    if transaction.state in ENDING and _next_of(transaction) == producer:
        raise concurrent(transactional_id)
    _check_producer(transaction, transactional_id, producer)
    return transaction


def fenced(transactional_id: str) -> KafkaError:
    """Returns PRODUCER_FENCED: a newer producer uses the transactional id."""
    return KafkaError(
        ErrorCode.PRODUCER_FENCED, f"A newer producer writes for transactional id {transactional_id!r}."
    )


def concurrent(transactional_id: str) -> KafkaError:
    """Returns CONCURRENT_TRANSACTIONS: the last transaction is not completed."""
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"The last transaction of {transactional_id!r} is not completed yet.",
        retry_after=0.02,
    )


def _may_expect(transaction: Transaction, expected: c.ProducerIdAndEpoch) -> bool:
    """Whether the caller may be the latest producer; `_renewed` compares its epoch."""
    if expected.producer_id == transaction.producer_id:
        return True
    # The response with the new producer id may have been lost.
    return expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= LAST_EPOCH


def _renewed(transaction: Transaction, command: c.InitProducerId, new_id: NewId, now_ms: int) -> Transaction:
    expected = command.expected
    epoch = None if expected is None else expected.producer_epoch
    kept = NONE if epoch is None else transaction.producer_epoch
    if transaction.exhausted and epoch in (None, transaction.producer_epoch):
        producer_id, producer_epoch, last = new_id(), 0, kept
    elif epoch in (None, transaction.producer_epoch):
        producer_id, producer_epoch, last = transaction.producer_id, transaction.producer_epoch + 1, kept
    elif epoch == transaction.last_producer_epoch:  # the response was lost
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


def _check_producer(transaction: Transaction, transactional_id: str, producer: c.ProducerIdAndEpoch) -> None:
    if producer.producer_id != transaction.producer_id:
        raise _unmapped(transactional_id)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced(transactional_id)


def _is_repeated(transaction: Transaction, command: c.End) -> bool:
    """Whether this end raised the epoch before, and its response was lost."""
    if command.version < RENEWS_EPOCH:
        return False
    requested, now = command.producer, producer_of(transaction)
    if requested.producer_id == now.producer_id:
        return requested.producer_epoch + 1 == now.producer_epoch == _raised(transaction)
    return (
        requested.producer_id == transaction.previous_producer_id
        and requested.producer_epoch == LAST_EPOCH
        and now.producer_epoch == 0
    )


def _raised(transaction: Transaction) -> int:
    """Returns the epoch that replaced the last one at the request of the producer."""
    return transaction.last_producer_epoch + 1


def _ending(transaction: Transaction, command: c.End, new_id: NewId, now_ms: int) -> Transaction:
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
    transaction: Transaction, command: c.End, new_id: NewId, now_ms: int, *, repeated: bool
) -> tuple[Transaction | None, c.ProducerIdAndEpoch]:
    """Ends a transaction that was ended before, or never had partitions."""
    renews = command.version >= RENEWS_EPOCH
    as_before = transaction.state is (COMPLETE_COMMIT if command.commit else COMPLETE_ABORT)
    if as_before and (repeated or not renews):
        return None, producer_of(transaction)
    if command.commit or repeated or not renews:
        raise _wrong_state(transaction, command)
    # An abort without partitions: the new epoch fences requests that the producer may still have in flight.
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


def _next_of(transaction: Transaction) -> c.ProducerIdAndEpoch:
    """Returns the producer that follows a decided transaction."""
    if transaction.next_producer_id != NONE:
        return c.ProducerIdAndEpoch(transaction.next_producer_id, 0)
    return producer_of(transaction)


def _unmapped(transactional_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"The producer id does not belong to transactional id {transactional_id!r}.",
    )


def _wrong_state(transaction: Transaction, command: c.End) -> KafkaError:
    verb = "committed" if command.commit else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"The transaction of {command.transactional_id!r} is {transaction.state.value}: it cannot be {verb}.",
    )


def stage(transaction: Transaction | None, command: c.Stage, step: Step) -> tuple[Transaction | None, None]:
    """Returns the session with the verdicts; None if that changes nothing.

    Verdicts of an earlier epoch, and those of another batch, are dropped.
    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_REQUEST.
    """
    transaction = current(transaction, command.transactional_id, command.producer)
    epoch, before = transaction.producer_epoch, transaction.staged
    verdicts = tuple(sorted(command.verdicts))
    if before is not None and before.batch == command.batch:
        if before.reconciled:
            raise invalid_field(
                "batch", f"Batch {command.batch!r} is committed: no verdict can be staged for it."
            )
        if before.producer_epoch == epoch:
            verdicts = laid_over(before.verdicts, verdicts)
    if len(verdicts) > MOST_STAGED:
        raise invalid_field(
            "verdicts", f"{len(verdicts)} offset spans exceed the limit of {MOST_STAGED} staged for a batch."
        )
    staged = Staged(command.batch, epoch, verdicts)
    if staged == before:
        return None, None
    return replace(transaction, staged=staged, updated_ms=step.now_ms), None


def staged_of(
    transaction: Transaction | None, command: c.ReadStaged, step: Step
) -> tuple[Transaction | None, Staged]:
    """Returns the session if it changes, and the verdicts that were staged for the batch.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = current(transaction, command.transactional_id, command.producer)
    staged = transaction.staged
    if staged is None or staged.batch != command.batch:
        return None, Staged(command.batch, transaction.producer_epoch)
    if command.reconciled and not staged.reconciled:
        reconciled = replace(staged, reconciled=True)
        return replace(transaction, staged=reconciled, updated_ms=step.now_ms), staged
    return None, staged


def laid_over(before: Iterable[Verdict], over: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Returns the verdicts of both; those of `over` win where both cover an offset."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    merged = sorted(over)
    for new in merged:
        spans.setdefault((new.topic, new.partition), []).append((new.first, new.last))
    for old in before:
        for first, last, index in split_by_spans(
            old.first, old.last, spans.get((old.topic, old.partition), ())
        ):
            if index is None:
                merged.append(old._replace(first=first, last=last))
    return tuple(sorted(merged))


RULES: Final[Mapping[type, Callable[[Transaction | None, Any, Step], tuple[Transaction | None, c.Reply]]]] = {
    c.InitProducerId: initialize,
    c.AddPartitions: add_partitions,
    c.VerifyPartitions: verify_partitions,
    c.End: end,
    c.ReadEnding: read_ending,
    c.Ended: complete,
    c.Describe: describe,
    c.Stage: stage,
    c.ReadStaged: staged_of,
}
"""The rule of each command about one transactional id."""
