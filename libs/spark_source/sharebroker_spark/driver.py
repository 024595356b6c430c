"""The driver's side of a query: its session, its open batch, and the thread that renews the locks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from time import monotonic
from typing import Any, Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.client import CALL_SECONDS, GatewayClient, log_spans
from sharebroker_spark.core.offsets import Partition, PlannedBatch, Range
from sharebroker_spark.core.options import Options
from sharebroker_spark.core.verdicts import BatchToken

_log = logging.getLogger(__name__)
_RENEWALS_PER_LOCK: Final = 3
_RETRY_SECONDS: Final = 1.0
_MAX_LISTED: Final = 5


class FencedError(RuntimeError):
    """Another driver has taken over the session."""


class LeaseLostError(RuntimeError):
    """Locks of a batch were lost before the batch was done."""


class Driver:
    """The owner of one session; used by one thread, and its own renewal thread (`renewals` so far).

    `lost` counts records that were no longer in the log when their batch was committed, `taken` records that
    other members acquired in the meantime.
    """

    def __init__(self, options: Options, client: GatewayClient) -> None:
        self._options = options
        self._client = client
        self._guard = threading.Lock()
        self._key: pb.PlanSession | None = None
        self._lock_seconds = 30.0
        self._open: tuple[PlannedBatch, float] | None = None
        self._requested_at = 0.0
        self._committed = 0
        self._certain = False
        self._fenced: str | None = None
        self._wake = threading.Event()
        self._closed = threading.Event()
        self.renewals = self.lost = self.taken = 0

    def plan(
        self, start: PlannedBatch, partitions: Mapping[Partition, int] | None, wait_ms: int
    ) -> PlannedBatch:
        """Commits `start`, which Spark has completed, and plans the next batch.

        Returns `start` without records.

        `partitions` limits planning to some partitions; None: all. Raises FencedError, LeaseLostError,
        KafkaError.
        """
        topics = [pb.PlanRequest.Topic(name=name) for name in self._options.topics]
        if partitions is not None:
            topics = [
                pb.PlanRequest.Topic(name=name, partitions=sorted(p for t, p in partitions if t == name))
                for name in sorted({topic for topic, _ in partitions})
            ]
        if not topics:
            self.commit(start)
            return start
        request = pb.PlanRequest(
            topics=topics,
            accepted=self._accepted(start),
            max_records=self._options.max_records,
            max_wait_ms=wait_ms,
            batch=start.name,
            by_columns=True,
        )
        answer: pb.PlanResponse
        requested_at = monotonic()
        answer, certain = self._ask(start.session, self._client.plans.Plan, request, wait_ms / 1000)
        self._committed_batch(start, answer.left, certain=certain and not answer.repeated)
        if not answer.columns:
            return start
        deadline_ms = min(min(item.lock_deadlines_ms) for item in answer.columns)
        batch = start.next(
            (planned_range for item in answer.columns for planned_range in _ranges(item)), deadline_ms
        )
        self._work_on(batch, requested_at)
        return batch

    def resume(self, batch: PlannedBatch) -> None:
        """Continues a batch that an earlier process planned; locks its available records again."""
        if self._key is None:
            requested_at = monotonic()
            self._renew(batch)
            self._work_on(batch, requested_at)

    def commit(self, batch: PlannedBatch) -> None:
        """Commits a batch that Spark has completed, unless it is committed already."""
        accepted = self._accepted(batch)
        if accepted:
            request = pb.CommitRequest(accepted=accepted, batch=batch.name)
            answer, certain = self._ask(batch.session, self._client.plans.Commit, request)
            self._committed_batch(batch, answer.left, certain=certain and not answer.repeated)

    def token(self, batch: PlannedBatch) -> BatchToken:
        """Returns the token for verdicts on records of an open batch."""
        key, options = self._key or self._open_session(batch.session), self._options
        return BatchToken(
            options.bootstrap, options.group, batch.session, key.epoch, batch.name, options.waits
        )

    def close(self) -> None:
        """Stops the renewal; locks remain until they time out."""
        self._closed.set()
        self._wake.set()

    def _accepted(self, batch: PlannedBatch) -> list[pb.PlanColumns]:
        return [] if batch.number <= self._committed else _columns(batch)

    def _committed_batch(
        self, batch: PlannedBatch, unapplied: Sequence[pb.PlanLeft], *, certain: bool
    ) -> None:
        """Handles a committed batch. Losses that an earlier attempt may explain are only logged."""
        certain, self._certain = certain and self._certain, True
        is_repetition = batch.number <= self._committed
        self._committed = max(self._committed, batch.number)
        seconds_worked = None
        with self._guard:
            if self._open is not None and self._open[0].number <= batch.number:
                seconds_worked, self._open = monotonic() - self._open[1], None
        lost = [item for item in unapplied if certain or item.reason != delivery.LEFT_REASON_FINISHED]
        if is_repetition or not lost:
            return
        in_log = self._in_log(lost)
        self.lost += _count(lost) - _count(in_log)
        self.taken += _count(in_log)
        if not in_log:
            return
        text = _stale(batch, in_log, self._lock_seconds, seconds_worked)
        if certain and self._options.fails_on_lost_lease:
            raise LeaseLostError(text)
        _log.warning(text)

    def _in_log(self, unapplied: Sequence[pb.PlanLeft]) -> list[pb.PlanLeft]:
        """Returns the ranges without those that retention deleted; their reader has reported them."""
        try:
            starts = log_spans(self._client, {item.range.topic for item in unapplied})
        except KafkaError:  # a topic was deleted
            return list(unapplied)
        return [
            item
            for item in unapplied
            if item.range.last_offset >= starts[item.range.topic, item.range.partition][0]
        ]

    # Calls of the session

    def _ask(self, session: str, method: Any, request: Any, wait: float = 0.0) -> tuple[Any, bool]:
        """Returns the response, and whether no earlier attempt can have taken effect.

        Raises FencedError, KafkaError.
        """
        certain = True
        while True:
            if self._fenced is not None:
                raise FencedError(self._fenced)
            if self._key is None or self._key.session_id != session:
                self._open_session(session)
            request.session.CopyFrom(self._key)
            try:
                answer = self._client.call_with_retry(method, request, wait + CALL_SECONDS)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:  # the session expired after a week without use
                    self._key, certain = None, False
                    continue
                self._check_fenced(error)
                raise
            return answer.value, certain and answer.first_attempt

    def _open_session(self, session: str) -> pb.PlanSession:
        request = pb.OpenSessionRequest(group_id=self._options.group, session_id=session)
        opened = self._client.call(self._client.plans.OpenSession, request)
        is_first = self._key is None
        self._key = pb.PlanSession(group_id=self._options.group, session_id=session, epoch=opened.epoch)
        self._lock_seconds = opened.lock_duration_ms / 1000
        if is_first:
            threading.Thread(target=self._renew_forever, name="sharebroker-renewal", daemon=True).start()
        return self._key

    def _check_fenced(self, error: KafkaError) -> None:
        if error.code is ErrorCode.FENCED_MEMBER_EPOCH:
            self._fenced = (
                f"Another driver reads with this checkpoint: {error.message} "
                "This query ends; it has changed nothing since then."
            )
            raise FencedError(self._fenced) from error

    def _work_on(self, batch: PlannedBatch, requested_at: float) -> None:
        with self._guard:
            self._open, self._requested_at = (batch, monotonic()), requested_at
        self._wake.set()

    # Renewal

    def _renew_forever(self) -> None:
        """Renews the open batch three times per lock duration, until maxBatchDurationMs."""
        pause = self._lock_seconds / _RENEWALS_PER_LOCK
        while self._fenced is None and not self._closed.is_set():
            woken = self._wake.wait(pause)
            self._wake.clear()
            pause = self._lock_seconds / _RENEWALS_PER_LOCK
            if woken:  # measure from the request that acquired the locks
                pause = max(self._requested_at + pause - monotonic(), 0.0)
                continue
            with self._guard:
                open_batch = self._open
            max_seconds = self._options.max_batch_duration_ms / 1000
            if self._closed.is_set() or open_batch is None or monotonic() - open_batch[1] > max_seconds:
                continue
            try:
                self._renew(open_batch[0])
                self.renewals += 1
            except FencedError as error:
                _log.error(str(error))
            except KafkaError as error:
                _log.warning("lock renewal failed for batch %s: %s", open_batch[0].number, error)
                pause = min(pause, _RETRY_SECONDS)

    def _renew(self, batch: PlannedBatch) -> None:
        columns = _columns(batch)
        if columns:
            request = pb.RenewRequest(topics=sorted({item.topic for item in columns}), columns=columns)
            self._ask(batch.session, self._client.plans.Renew, request)


def _ranges(planned: pb.PlannedColumns) -> Iterator[Range]:
    columns = (planned.partitions, planned.first_offsets, planned.last_offsets, planned.delivery_counts)
    return map(Range, repeat(planned.topic), *columns)


def _columns(batch: PlannedBatch) -> list[pb.PlanColumns]:
    found = []
    for topic, ranges in groupby(batch.ranges, key=itemgetter(0)):
        _, partitions, firsts, lasts, _ = zip(*ranges, strict=True)
        found.append(
            pb.PlanColumns(topic=topic, partitions=partitions, first_offsets=firsts, last_offsets=lasts)
        )
    return found


def _count(unapplied: Iterable[pb.PlanLeft]) -> int:
    return sum(item.range.last_offset - item.range.first_offset + 1 for item in unapplied)


def _stale(
    batch: PlannedBatch, unapplied: Sequence[pb.PlanLeft], lock_seconds: float, seconds_worked: float | None
) -> str:
    ranges = [item.range for item in unapplied]
    listed = ", ".join(
        f"{item.topic}-{item.partition} {item.first_offset}..{item.last_offset}"
        for item in ranges[:_MAX_LISTED]
    )
    worked_for = "" if seconds_worked is None else f", {seconds_worked:.0f} s"
    return (
        f"Batch {batch.number} took longer than its locks{worked_for}: {_count(unapplied)} of its "
        f"{batch.records} "
        f"records lost their locks and were delivered to other members as well ({listed}). A lock lasts "
        f"{lock_seconds:g} s (share.record.lock.duration.ms) and is renewed while the driver runs, at most "
        "maxBatchDurationMs."
    )
