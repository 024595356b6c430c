"""Makes spans of traced records from the events and effects of a share-partition.

A record's `acquire` span has the span that produced the record as its parent. What ends the delivery (accept,
release, reject, lost lock) is a child of `acquire`; it starts with the event and ends when the change is
durable. One `write state` span stands for a state write; the spans that wait for it link to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry.trace import Span, SpanKind

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AckType, RecordState, StateBatch
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.tracer import context_of, fail, link
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    Effects,
    Event,
    LostLock,
    Retire,
    UndoAcquire,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.runs import Transition, member_of
from sharebroker_server.share_partition_leader.core.share_partition import relinquished

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.tracing.partition_traces import PartitionTraces

LOST: Final = "lock lost"
_MAX_HELD: Final = 10_000
_MAX_LINKS: Final = 128
_RENEW: Final = int(AckType.RENEW)
_TIMED_OUT: Final = KafkaError(
    ErrorCode.INVALID_RECORD_STATE, "The lock timed out.", metadata={"reason": "lock_timeout"}
)


class Ending(NamedTuple):
    """A span that ends a delivery once that is durable; `parent` is the span of the acquisition."""

    offset: int
    span: Span
    parent: TraceContext


class RecordSpans:
    """An `Observer` of one share-partition."""

    def __init__(self, traces: PartitionTraces, group_id: str) -> None:
        self._write_span: Span | None = None
        self._tracer = traces.tracer
        self._traces = traces
        self._group_id = group_id
        self._acquired: dict[int, TraceContext] = {}
        self._waiting: list[Ending] = []
        self._in_flight: list[Ending] = []

    def fetched(self, batches: Sequence[StoredBatch]) -> None:
        """Finds traced records in batches that were appended before this process led the partition."""
        self._traces.look_into(batches)

    def observe(self, event: Event, effects: Effects) -> None:
        """Makes the spans of an event that was applied."""
        if isinstance(event, WriteCompleted):
            self._end_write(event.error)
        if not self._traces.offsets:
            return
        if isinstance(event, Acquire):
            self._start_deliveries(event.request.member, effects)
        elif isinstance(event, Retire):
            self._retire(effects.lost)
        elif isinstance(event, UndoAcquire):
            self._instant("undo acquire", event.batches)
        elif isinstance(event, Acknowledge):
            renewed = [batch for batch in event.batches if _RENEW in batch.types]
            self._instant("renew", renewed)
        for transition in effects.transitions:
            self._waiting += self._endings(transition)

    def rejected(self, event: Event, error: KafkaError) -> None:
        """Makes the span of acknowledgements that were rejected."""
        if isinstance(event, Acknowledge) and self._traces.offsets:
            self._instant("acknowledge", event.batches, error)

    def write_started(self) -> Span | None:
        """Starts the span of a state write; the spans that wait for it link to it."""
        self._in_flight, self._waiting = self._waiting, []
        if not self._in_flight:
            return None
        contexts = [context_of(ending.span) for ending in self._in_flight]
        attributes = self._traces.about("write state", names.SETTLE) | {
            names.GROUP: self._group_id,
            names.COUNT: len(contexts),
        }
        name = f"write state {self._traces.topic}"
        self._write_span = self._tracer.start(
            name, contexts[0], SpanKind.CLIENT, attributes, contexts[1:_MAX_LINKS]
        )
        if self._write_span is not None:
            for ending in self._in_flight[1:]:
                link(ending.span, context_of(self._write_span))
        return self._write_span

    def _end_write(self, error: KafkaError | None) -> None:
        span, self._write_span = self._write_span, None
        if span is not None:
            self._tracer.end(span, error)
        endings, self._in_flight = self._in_flight, []
        self._end(endings, error)

    def _end(self, endings: Sequence[Ending], error: KafkaError | None) -> None:
        for offset, span, parent in endings:
            # After a lock timeout another member may have acquired the record since: its span stays.
            if error is None and self._acquired.get(offset) is parent:
                del self._acquired[offset]
            self._tracer.end(span, error)

    def _retire(self, lost: Sequence[LostLock]) -> None:
        """Ends the spans of lost locks and of changes that were not sent."""
        waiting, self._waiting = self._waiting, []
        for lock in lost:
            batch = StateBatch(lock.first, lock.last, RecordState.AVAILABLE, lock.delivery_count)
            waiting += self._outcome(LOST, batch)
        self._end(waiting, relinquished())

    def _start_deliveries(self, holder: str, effects: Effects) -> None:
        for item in effects.acquired:
            for offset, context in self._traces.offsets.within(item.first, item.last):
                attributes = self._about("acquire", names.RECEIVE, offset, item.delivery_count)
                attributes[names.CLIENT] = member_of(holder)
                span = self._traces.start("acquire", context, attributes)
                if span is not None:
                    self._tracer.end(span)
                    if len(self._acquired) >= _MAX_HELD:
                        del self._acquired[next(iter(self._acquired))]
                    self._acquired[offset] = context_of(span)

    def _endings(self, transition: Transition) -> Iterator[Ending]:
        for run in transition.runs:
            outcome = _outcome_of(run.target, transition)
            yield from self._outcome(outcome, StateBatch(run.first, run.last, run.target, run.delivery_count))
        if not (transition.runs or transition.letters):
            for batch in transition.batches:
                yield from self._outcome(LOST, batch)

    def _outcome(self, outcome: str, batch: StateBatch) -> Iterator[Ending]:
        for offset, context in self._traces.offsets.within(batch.first, batch.last):
            attributes = self._about(outcome, names.SETTLE, offset, batch.delivery_count)
            attributes |= {names.SETTLED: outcome, names.STATE: RecordState(batch.state).name.lower()}
            parent = self._acquired.get(offset, context)
            span = self._traces.start(outcome, parent, attributes)
            if span is not None:
                if outcome is LOST:
                    fail(span, _TIMED_OUT)
                yield Ending(offset, span, parent)

    def _instant(self, operation: str, batches: Sequence[AckBatch], error: KafkaError | None = None) -> None:
        """A span of something that is not written: a rejection, a renewal, an undone acquisition."""
        for first, last, *_ in batches:
            for offset, context in self._traces.offsets.within(first, last):
                attributes = self._about(operation, names.SETTLE, offset)
                span = self._traces.start(operation, self._acquired.get(offset, context), attributes)
                if span is not None:
                    self._tracer.end(span, error)

    def _about(
        self, operation: str, type_: str, offset: int, delivery_count: int = 0
    ) -> dict[str, str | int]:
        attributes = self._traces.about(operation, type_)
        attributes |= {names.GROUP: self._group_id, names.OFFSET: offset}
        if delivery_count:
            attributes[names.DELIVERY] = delivery_count
        return attributes


def _outcome_of(target: RecordState, transition: Transition) -> str:
    """The acknowledgement that led to a state; a record that reached the delivery limit was released."""
    if target is RecordState.ACKNOWLEDGED:
        return "accept"
    ended = target is not RecordState.AVAILABLE and transition.rejected + transition.gaps > 0
    return "reject" if ended else "release"
