"""The driver's side of a query: its session, its open batch, and the thread that keeps that locked."""

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
from sharebroker_spark.client import CALL_SECONDS, Client
from sharebroker_spark.core.offsets import Batch, Partition, Range
from sharebroker_spark.core.options import Options
from sharebroker_spark.core.verdicts import BatchToken
from sharebroker_spark.positions import log_spans

_log = logging.getLogger(__name__)
_RENEWALS_A_LOCK: Final = 3
_RETRY_SECONDS: Final = 1.0
_WORTH_TELLING: Final = 5


class FencedError(RuntimeError):
    """Another driver has taken the session over."""


class LeaseLostError(RuntimeError):
    """Records of a batch were given to others before the batch was done."""


class Driver:
    """Speaks for one session; used by one thread, beside its own that renews (`renewals` times so far).

    Of its batches, `lost` records were no longer in the log when they were done, and `taken` were given to
    others as well.
    """

    def __init__(self, options: Options, client: Client) -> None:
        self._options = options
        self._client = client
        self._guard = threading.Lock()
        self._key: pb.PlanSession | None = None
        self._lock_seconds = 30.0
        self._open: tuple[Batch, float] | None = None
        self._asked = 0.0
        self._committed = 0
        self._sure = False
        self._fenced: str | None = None
        self._wake = threading.Event()
        self._closed = threading.Event()
        self.renewals = self.lost = self.taken = 0

    def plan(self, start: Batch, partitions: Mapping[Partition, int] | None, wait_ms: int) -> Batch:
        """Commit `start`, which Spark has recorded as done, and plan what follows; `start`: nothing.

        `partitions` are those to plan from; None: all. Raises FencedError, LeaseLostError, KafkaError.
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
        asked = monotonic()
        answer, sure = self._ask(start.session, self._client.plans.Plan, request, wait_ms / 1000)
        self._done(start, answer.left, sure=sure and not answer.repeated)
        if not answer.columns:
            return start
        deadline_ms = min(min(one.lock_deadlines_ms) for one in answer.columns)
        batch = start.next((each for one in answer.columns for each in _ranges(one)), deadline_ms)
        self._work_on(batch, asked)
        return batch

    def resume(self, batch: Batch) -> None:
        """Work on a batch that an earlier process planned; what of it is free is locked again."""
        if self._key is None:
            asked = monotonic()
            self._renew(batch)
            self._work_on(batch, asked)

    def commit(self, batch: Batch) -> None:
        """Commit a batch that Spark has recorded as done, unless it was before."""
        accepted = self._accepted(batch)
        if accepted:
            request = pb.CommitRequest(accepted=accepted, batch=batch.name)
            answer, sure = self._ask(batch.session, self._client.plans.Commit, request)
            self._done(batch, answer.left, sure=sure and not answer.repeated)

    def token(self, batch: Batch) -> BatchToken:
        """What verdicts about records of a batch need, which is being worked on."""
        key, options = self._key or self._open_session(batch.session), self._options
        return BatchToken(
            options.bootstrap, options.group, batch.session, key.epoch, batch.name, options.waits
        )

    def close(self) -> None:
        """Renew nothing any more; what is held stays so until its locks run out."""
        self._closed.set()
        self._wake.set()

    def _accepted(self, batch: Batch) -> list[pb.PlanColumns]:
        return [] if batch.number <= self._committed else _columns(batch)

    def _done(self, batch: Batch, left: Sequence[pb.PlanLeft], *, sure: bool) -> None:
        """A batch is committed. What an earlier try or process may have committed is only told."""
        sure, self._sure = sure and self._sure, True
        again = batch.number <= self._committed
        self._committed = max(self._committed, batch.number)
        worked = None
        with self._guard:
            if self._open is not None and self._open[0].number <= batch.number:
                worked, self._open = monotonic() - self._open[1], None
        stale = [one for one in left if sure or one.reason != delivery.LEFT_REASON_FINISHED]
        if again or not stale:
            return
        in_log = self._in_log(stale)
        self.lost += _count(stale) - _count(in_log)
        self.taken += _count(in_log)
        if not in_log:
            return
        text = _stale(batch, in_log, self._lock_seconds, worked)
        if sure and self._options.fails_on_lost_lease:
            raise LeaseLostError(text)
        _log.warning(text)

    def _in_log(self, left: Sequence[pb.PlanLeft]) -> list[pb.PlanLeft]:
        """Without what retention removed since it was planned: that was told by whoever read it."""
        try:
            starts = log_spans(self._client, {one.range.topic for one in left})
        except KafkaError:  # a topic is gone
            return list(left)
        return [
            one for one in left if one.range.last_offset >= starts[one.range.topic, one.range.partition][0]
        ]

    # Calls of the session

    def _ask(self, session: str, method: Any, request: Any, wait: float = 0.0) -> tuple[Any, bool]:
        """The answer, and whether nothing of it can have happened before. Raises FencedError, KafkaError."""
        sure = True
        while True:
            if self._fenced is not None:
                raise FencedError(self._fenced)
            if self._key is None or self._key.session_id != session:
                self._open_session(session)
            request.session.CopyFrom(self._key)
            try:
                answer = self._client.repeated(method, request, wait + CALL_SECONDS)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:  # not used for a week
                    self._key, sure = None, False
                    continue
                self._check_fenced(error)
                raise
            return answer.value, sure and answer.first_try

    def _open_session(self, session: str) -> pb.PlanSession:
        request = pb.OpenSessionRequest(group_id=self._options.group, session_id=session)
        opened = self._client.call(self._client.plans.OpenSession, request)
        begins = self._key is None
        self._key = pb.PlanSession(group_id=self._options.group, session_id=session, epoch=opened.epoch)
        self._lock_seconds = opened.lock_duration_ms / 1000
        if begins:
            threading.Thread(target=self._keep, name="sharebroker-renewal", daemon=True).start()
        return self._key

    def _check_fenced(self, error: KafkaError) -> None:
        if error.code is ErrorCode.FENCED_MEMBER_EPOCH:
            self._fenced = (
                f"Another driver reads with this checkpoint: {error.message} "
                "This query ends; it changed nothing since."
            )
            raise FencedError(self._fenced) from error

    def _work_on(self, batch: Batch, asked: float) -> None:
        with self._guard:
            self._open, self._asked = (batch, monotonic()), asked
        self._wake.set()

    # Renewal

    def _keep(self) -> None:
        """Renew the open batch three times in the life of a lock, for as long as a batch may take."""
        pause = self._lock_seconds / _RENEWALS_A_LOCK
        while self._fenced is None and not self._closed.is_set():
            fresh = self._wake.wait(pause)
            self._wake.clear()
            pause = self._lock_seconds / _RENEWALS_A_LOCK
            if fresh:  # its locks were given after it was asked for
                pause = max(self._asked + pause - monotonic(), 0.0)
                continue
            with self._guard:
                working = self._open
            longest = self._options.max_batch_duration_ms / 1000
            if self._closed.is_set() or working is None or monotonic() - working[1] > longest:
                continue
            try:
                self._renew(working[0])
                self.renewals += 1
            except FencedError as error:
                _log.error(str(error))
            except KafkaError as error:
                _log.warning("could not renew the locks of batch %s: %s", working[0].number, error)
                pause = min(pause, _RETRY_SECONDS)

    def _renew(self, batch: Batch) -> None:
        columns = _columns(batch)
        if columns:
            request = pb.RenewRequest(topics=sorted({one.topic for one in columns}), columns=columns)
            self._ask(batch.session, self._client.plans.Renew, request)


def _ranges(planned: pb.PlannedColumns) -> Iterator[Range]:
    columns = (planned.partitions, planned.first_offsets, planned.last_offsets, planned.delivery_counts)
    return map(Range, repeat(planned.topic), *columns)


def _columns(batch: Batch) -> list[pb.PlanColumns]:
    found = []
    for topic, ranges in groupby(batch.ranges, key=itemgetter(0)):
        _, partitions, firsts, lasts, _ = zip(*ranges, strict=True)
        found.append(
            pb.PlanColumns(topic=topic, partitions=partitions, first_offsets=firsts, last_offsets=lasts)
        )
    return found


def _count(left: Iterable[pb.PlanLeft]) -> int:
    return sum(one.range.last_offset - one.range.first_offset + 1 for one in left)


def _stale(batch: Batch, left: Sequence[pb.PlanLeft], lock_seconds: float, worked: float | None) -> str:
    ranges = [one.range for one in left]
    some = ", ".join(
        f"{one.topic}-{one.partition} {one.first_offset}..{one.last_offset}"
        for one in ranges[:_WORTH_TELLING]
    )
    worked_for = "" if worked is None else f", {worked:.0f} s"
    return (
        f"Batch {batch.number} took longer than its locks{worked_for}: {_count(left)} of its {batch.records} "
        f"records are no longer this query's and were given to others as well ({some}). A lock lasts "
        f"{lock_seconds:g} s (share.record.lock.duration.ms) and is renewed while the driver runs, at most "
        "maxBatchDurationMs."
    )
