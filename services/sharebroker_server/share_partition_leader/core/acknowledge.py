"""Acknowledgements: validates a request, checks that the member holds the records, and marks the runs.

Marking changes no state: a run refers to the transition that waits for the share coordinator (see
`core.share_partition`). Renewals are collected, and take effect at once if the whole request is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import ENDED, LONGEST_DELAY_MS, AckBatch, AckType, Disposition
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery
from sharebroker_server.share_partition_leader.core.events import Counts, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.runs import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Lock,
    Run,
    Transition,
)
from sharebroker_server.share_partition_leader.core.transitions import AFTER_ACK

_COUNTED_TYPES: Final = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)
_RELEASE, _REJECT, _RENEW = map(int, (AckType.RELEASE, AckType.REJECT, AckType.RENEW))


class RejectReason(StrEnum):
    """Why an acknowledgement is rejected: `reason` in the metadata of INVALID_RECORD_STATE."""

    NOT_IN_FLIGHT = "not_in_flight"
    NEVER_ACQUIRED = "never_acquired"
    LOCK_LOST = "lock_lost"
    HELD_BY_ANOTHER_MEMBER = "held_by_another_member"
    STALE_TOKEN = "stale_token"
    ALREADY_ACKNOWLEDGED = "already_acknowledged"
    ACKNOWLEDGEMENT_PENDING = "acknowledgement_pending"
    RENEW_DISABLED = "renew_disabled"


def validate_batches(batches: Sequence[AckBatch]) -> None:
    """Validates the form of ack batches.

    Batches that share one offset are valid, as in Kafka (KafkaApis, ShareFetch and ShareAcknowledge).
    Raises: KafkaError INVALID_REQUEST that names the first invalid batch.
    """
    previous_last = 0
    for index, batch in enumerate(batches):
        fault = _fault(batch, previous_last)
        if fault:
            field, description = fault
            offsets = {"first_offset": str(batch.first), "last_offset": str(batch.last)}
            raise invalid(f"acknowledgement_batches[{index}].{field}", description, offsets)
        previous_last = batch.last


def validate_delay(batches: Sequence[AckBatch], delay: float) -> None:
    """Validates that only releases are delayed (seconds), and none longer than `LONGEST_DELAY_MS`.

    Raises: KafkaError INVALID_REQUEST.
    """
    if not 0 <= delay * 1000 <= LONGEST_DELAY_MS:
        raise invalid("delay_ms", f"must be 0 to {LONGEST_DELAY_MS}")
    validate_releases(batches, "delay_ms")


def validate_releases(batches: Sequence[AckBatch], field: str) -> None:
    """Raises INVALID_REQUEST for `field` unless every type is RELEASE."""
    if any(kind != _RELEASE for batch in batches for kind in batch.types):
        raise invalid(field, "is for releases only")


def validate_renewals(batches: Sequence[AckBatch], field: str) -> None:
    """Raises INVALID_REQUEST for `field` unless every type is RENEW."""
    if any(kind != _RENEW for batch in batches for kind in batch.types):
        raise invalid(field, "is for renewals only")


def _fault(batch: AckBatch, previous_last: int) -> tuple[str, str] | None:
    first, last, types, _ = batch
    if first > last:
        return "first_offset", "is greater than the last offset"
    if first < previous_last:
        return "first_offset", "is lower than the last offset of the batch before, or negative"
    if not types:
        return "acknowledge_types", "is empty"
    if len(types) > 1 and len(types) != last - first + 1:
        return "acknowledge_types", "must hold one type, or one for each offset"
    if (not 0 <= types[0] <= _RENEW) if len(types) == 1 else (min(types) < 0 or max(types) > _RENEW):
        return "acknowledge_types", "holds an unknown type"
    return None


def mark(
    in_flight: InFlight,
    settings: SharePartitionSettings,
    member: str,
    batches: Sequence[AckBatch],
    transition: Transition,
    retry: FailedDelivery | None = None,
) -> list[tuple[Run, Lock]]:
    """Adds the runs named by `batches` to the transition, all or none.

    Released records wait as `retry` states. Returns the runs to renew, with their locks.

    Raises: KafkaError as `_Acknowledgement.add`.
    """
    acknowledgement = _Acknowledgement(in_flight, settings, member, transition, retry)
    try:
        for batch in batches:
            acknowledgement.add(batch)
    except KafkaError:
        for run in transition.runs:
            run.cancel()
        in_flight.coalesce(transition.runs)
        raise
    return acknowledgement.renewed


class _Acknowledgement:
    """Marks the runs of one acknowledgement."""

    __slots__ = ("in_flight", "member", "renewed", "retry", "settings", "transition")

    def __init__(
        self,
        in_flight: InFlight,
        settings: SharePartitionSettings,
        member: str,
        transition: Transition,
        retry: FailedDelivery | None,
    ) -> None:
        self.in_flight = in_flight
        self.settings = settings
        self.member = member
        self.transition = transition
        self.retry = retry
        self.renewed: list[tuple[Run, Lock]] = []

    def add(self, batch: AckBatch) -> None:
        """Marks the runs of a batch; without a token, offsets below the start offset are ignored (Kafka).

        Raises: KafkaError INVALID_REQUEST beyond the acquired records; INVALID_RECORD_STATE for a record that
        this member does not hold, with `offset` and `reason` (RejectReason) in the metadata.
        """
        in_flight = self.in_flight
        first, last, types, token = batch
        start = in_flight.start
        if first < start and token is not None:
            raise _refused(first, RejectReason.NOT_IN_FLIGHT)
        if last < start:
            return
        if len(types) == 1:
            first = max(first, start)
            index = in_flight.locate(first)
            runs = in_flight.runs
            if index == len(runs) or not runs[index].first <= last <= runs[index].last:
                self._check_range(batch.first, last)
            self._mark(index, first, last, types[0], token)
            return
        self._check_range(first, last)
        for first, last, kind in _segments(batch):
            if last >= start:
                first = max(first, start)
                self._mark(in_flight.locate(first), first, last, kind, token)

    def _check_range(self, first: int, last: int) -> None:
        in_flight = self.in_flight
        if not in_flight.runs and first >= in_flight.start:
            raise _refused(first, RejectReason.NOT_IN_FLIGHT)
        index = in_flight.locate(last)
        if index == len(in_flight.runs) or in_flight.firsts[index] > last:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"offset {last} is past the acquired records",
                metadata={"offset": str(last), "last_acquired": str(in_flight.after_end - 1)},
            )

    def _mark(self, index: int, first: int, last: int, kind: int, token: int | None) -> None:
        """Marks the runs of first..last; `index` is that of the first of them."""
        in_flight, transition, runs = self.in_flight, self.transition, self.in_flight.runs
        target = AFTER_ACK[self.settings.dead_letters][kind]
        while index < len(runs) and (run := runs[index]).first <= last:
            lock = run.lock
            if (
                lock is None
                or run.pending is not None
                or lock.member != self.member
                or (token is not None and token != lock.token)
            ):
                raise _refused(max(first, run.first), _why(run, self.member))
            if run.first < first or run.last > last:
                index = in_flight.split_at(index, first, last)
                run = runs[index]
            index += 1
            if target is ACQUIRED:
                self._renew(run, lock)
                continue
            if kind == _REJECT:
                transition.rejected += run.size
                transition.fail(run, Disposition.REJECTED)
            elif target is ARCHIVED:
                transition.gaps += run.size
            # Inlines `Transition.add` to save a call per run.
            if target is AVAILABLE:
                self._release(run)
            else:
                run.target = target
            run.pending = transition
            transition.runs.append(run)

    def _release(self, run: Run) -> None:
        run.target = self.transition.after_release(run.delivery_count, self.settings)
        if run.target is not AVAILABLE:
            self.transition.fail(run, Disposition.EXHAUSTED)
        run.target_not_before_ms = run.next_delivery_ms(self.retry)

    def _renew(self, run: Run, lock: Lock) -> None:
        if not self.settings.renew_enabled:
            raise _refused(run.first, RejectReason.RENEW_DISABLED)
        self.renewed.append((run, lock))


def _segments(batch: AckBatch) -> Iterator[tuple[int, int, int]]:
    """Splits a batch that has one type per offset into (first, last, type) of equal types."""
    first = batch.first
    for kind, same in groupby(batch.types):
        last = first + sum(1 for _ in same) - 1
        yield first, last, kind
        first = last + 1


def _why(run: Run, member: str) -> RejectReason:
    """Why `member` may not acknowledge a run; a wrong token is the last possible reason."""
    if run.pending is not None:
        return RejectReason.ACKNOWLEDGEMENT_PENDING
    if run.state in ENDED:
        return RejectReason.ALREADY_ACKNOWLEDGED
    if run.lock is None:
        return RejectReason.LOCK_LOST if run.delivery_count else RejectReason.NEVER_ACQUIRED
    if run.lock.member != member:
        return RejectReason.HELD_BY_ANOTHER_MEMBER
    return RejectReason.STALE_TOKEN


def invalid(field: str, fault: str, metadata: Mapping[str, str] | None = None) -> KafkaError:
    """The error of a request with an invalid field."""
    violations = [FieldViolation(field, fault)]
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"{field}: {fault}", metadata=metadata, violations=violations
    )


def _refused(offset: int, why: RejectReason) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD_STATE,
        f"offset {offset}: {why.value.replace('_', ' ')}",
        metadata={"offset": str(offset), "reason": why.value},
    )


def count_acknowledged(counts: Counts, batches: Sequence[AckBatch]) -> None:
    """Counts acknowledgements that were applied."""
    by_type = counts.acknowledged
    for first, last, types, _ in batches:
        if len(types) == 1:
            by_type[types[0]] += last - first + 1
        else:
            for kind in _COUNTED_TYPES:
                by_type[kind] += types.count(kind)
