"""Verdicts about a planned batch, kept until the batch is committed: then they are carried out, or never.

One batch a session is remembered, also after its verdicts were carried out: who commits it again must not
release anew what meanwhile may be part of the next batch. See services/decisions/0044.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.commands import AskStaged, Stage
from sharebroker_server.group_coordinator.core.transactions.model import Staged, Transaction, Verdict
from sharebroker_server.offset_spans import split_by_spans

MOST: Final = 20_000
"""Runs of offsets staged for a batch."""


def stage(transaction: Transaction | None, command: Stage, now_ms: int) -> Transaction | None:
    """The session with the verdicts; None where that changes nothing.

    What an earlier epoch staged, or what was staged for another batch, is forgotten.
    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_REQUEST.
    """
    transaction = rules.current(transaction, command.transactional_id, command.producer)
    epoch, before = transaction.producer_epoch, transaction.staged
    verdicts = tuple(sorted(command.verdicts))
    if before is not None and before.batch == command.batch:
        if before.settled:
            raise _refused("batch", f"Batch {command.batch!r} is committed: nothing can be said of it now.")
        if before.producer_epoch == epoch:
            verdicts = laid_over(before.verdicts, verdicts)
    if len(verdicts) > MOST:
        raise _refused(
            "verdicts", f"{len(verdicts)} runs of offsets are too many; {MOST} can be staged for a batch."
        )
    staged = Staged(command.batch, epoch, verdicts)
    return None if staged == before else replace(transaction, staged=staged, updated_ms=now_ms)


def staged_of(
    transaction: Transaction | None, command: AskStaged, now_ms: int
) -> tuple[Transaction | None, Staged]:
    """What is staged for the batch as it was, and the session where it is noted as settled.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = rules.current(transaction, command.transactional_id, command.producer)
    staged = transaction.staged
    if staged is None or staged.batch != command.batch:
        return None, Staged(command.batch, transaction.producer_epoch)
    if command.settle and not staged.settled:
        return replace(transaction, staged=replace(staged, settled=True), updated_ms=now_ms), staged
    return None, staged


def laid_over(before: Iterable[Verdict], over: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Verdicts, with others in their place where both speak of an offset."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    merged = sorted(over)
    for one in merged:
        spans.setdefault((one.topic, one.partition), []).append((one.first, one.last))
    for one in before:
        for first, last, index in split_by_spans(
            one.first, one.last, spans.get((one.topic, one.partition), ())
        ):
            if index is None:
                merged.append(one._replace(first=first, last=last))
    return tuple(sorted(merged))


def _refused(field: str, text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text, violations=[FieldViolation(field, text)])
