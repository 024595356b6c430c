"""Staged verdicts of a planned batch: the commit of the batch carries them out.

A session stores the verdicts of one batch, also after they were carried out: a repeated commit must not
release records again that may be part of the next batch by then. See services/decisions/0044.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.commands import ReadStaged, Stage
from sharebroker_server.group_coordinator.core.transactions.model import Staged, Transaction, Verdict
from sharebroker_server.offset_spans import split_by_spans

MOST: Final = 20_000
"""The limit of offset spans staged for a batch."""


def stage(transaction: Transaction | None, command: Stage, now_ms: int) -> Transaction | None:
    """Returns the session with the verdicts; None if that changes nothing.

    Verdicts of an earlier epoch, and those of another batch, are dropped.
    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_REQUEST.
    """
    transaction = rules.current(transaction, command.transactional_id, command.producer)
    epoch, before = transaction.producer_epoch, transaction.staged
    verdicts = tuple(sorted(command.verdicts))
    if before is not None and before.batch == command.batch:
        if before.reconciled:
            raise _rejection(
                "batch", f"Batch {command.batch!r} is committed: no verdict can be staged for it."
            )
        if before.producer_epoch == epoch:
            verdicts = laid_over(before.verdicts, verdicts)
    if len(verdicts) > MOST:
        raise _rejection(
            "verdicts", f"{len(verdicts)} offset spans exceed the limit of {MOST} staged for a batch."
        )
    staged = Staged(command.batch, epoch, verdicts)
    return None if staged == before else replace(transaction, staged=staged, updated_ms=now_ms)


def staged_of(
    transaction: Transaction | None, command: ReadStaged, now_ms: int
) -> tuple[Transaction | None, Staged]:
    """Returns the session if it changes, and the verdicts that were staged for the batch.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = rules.current(transaction, command.transactional_id, command.producer)
    staged = transaction.staged
    if staged is None or staged.batch != command.batch:
        return None, Staged(command.batch, transaction.producer_epoch)
    if command.reconciled and not staged.reconciled:
        return replace(transaction, staged=replace(staged, reconciled=True), updated_ms=now_ms), staged
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


def _rejection(field: str, text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text, violations=[FieldViolation(field, text)])
