"""What one group does with traced records of a partition, told in spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from opentelemetry.trace import Span, SpanKind

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, RecordState, StateBatch
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.tracer import context_of, fail, link
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.values import LostLock
from sharebroker_server.share_partition_leader.partition.lock_holders import member_of
from sharebroker_server.share_partition_leader.tracing.partition_traces import PartitionTraces

LOST: Final = "lock lost"
_MOST_HELD: Final = 10_000
_MOST_LINKS: Final = 128
_LOST: Final = KafkaError(
    ErrorCode.INVALID_RECORD_STATE, "The lock ran out.", metadata={"reason": "lock_timeout"}
)


class Ending(NamedTuple):
    """What ended, or is to end, a delivery: its span ends when that is durable."""

    offset: int
    span: Span
    of: TraceContext


class Story:
    """What one group does with traced records of a partition."""

    def __init__(self, traces: PartitionTraces, group_id: str) -> None:
        self.tracer = traces.tracer
        self._traces = traces
        self._group_id = group_id
        self._held: dict[int, TraceContext] = {}
        self._open: dict[Transition, list[Ending]] = {}

    def acquired(
        self, holder: str, acquired: Sequence[AcquiredRange], batches: Sequence[StoredBatch]
    ) -> None:
        """Records were handed out."""
        self._traces.look_into(batches)
        if not self._traces.offsets:
            return
        for run in acquired:
            for offset, context in self._traces.offsets.within(run.first, run.last):
                told = self._about("acquire", names.RECEIVE, offset, run.delivery_count)
                told[names.CLIENT] = member_of(holder)
                span = self._traces.start("acquire", context, told)
                if span is not None:
                    self.tracer.end(span)
                    self._hold(offset, context_of(span))

    def settling(self, transition: Transition) -> None:
        """Acknowledgements were taken, or locks ran out: spans that end when that is durable."""
        if not self._traces.offsets:
            return
        endings: list[Ending] = []
        for run in transition.runs:
            verdict = _verdict(run.target, transition)
            endings += self._ended(verdict, StateBatch(run.first, run.last, run.target, run.delivery_count))
        if not transition.runs:
            for batch in transition.batches:
                endings += self._ended(LOST, batch)
        if endings:
            self._open[transition] = endings

    def said(self, what: str, batches: Sequence[AckBatch], error: KafkaError | None = None) -> None:
        """Something about records that is written nowhere: a refusal, a renewal, what is given back."""
        if not self._traces.offsets:
            return
        for first, last, *_ in batches:
            for offset, context in self._traces.offsets.within(first, last):
                told = self._about(what, names.SETTLE, offset)
                span = self._traces.start(what, self._held.get(offset, context), told)
                if span is not None:
                    self.tracer.end(span, error)

    def writing(self, transitions: Sequence[Transition]) -> list[Ending]:
        """What waits for these to be durable."""
        if not self._open:
            return []
        return [ending for transition in transitions for ending in self._open.pop(transition, ())]

    def write(self, endings: Sequence[Ending]) -> Span | None:
        """The span of the write that they wait for; made current by the caller."""
        contexts = [context_of(ending.span) for ending in endings]
        told = self._traces.about("write state", names.SETTLE) | {
            names.GROUP: self._group_id,
            names.COUNT: len(endings),
        }
        made = self.tracer.start(
            f"write state {self._traces.topic}", contexts[0], SpanKind.CLIENT, told, contexts[1:_MOST_LINKS]
        )
        if made is not None:
            for ending in endings[1:]:
                link(ending.span, context_of(made))
        return made

    def written(self, endings: Sequence[Ending], error: KafkaError | None) -> None:
        """They are durable, or taken back: the records are held as before."""
        for offset, span, of in endings:
            # Who loses a lock loses it at once: another may have the record since.
            if error is None and self._held.get(offset) is of:
                del self._held[offset]
            self.tracer.end(span, error)

    def retired(self, held: Sequence[LostLock]) -> None:
        """Another will lead: what is held is lost, what is not written is refused."""
        error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The share-partition was given up here.")
        waiting, self._open = self._open, {}
        for endings in waiting.values():
            self.written(endings, error)
        for lock in held:
            batch = StateBatch(lock.first, lock.last, RecordState.AVAILABLE, lock.delivery_count)
            self.written(list(self._ended(LOST, batch)), error)

    def _ended(self, verdict: str, batch: StateBatch) -> Iterator[Ending]:
        for offset, context in self._traces.offsets.within(batch.first, batch.last):
            told = self._about(verdict, names.SETTLE, offset, batch.delivery_count)
            told |= {names.SETTLED: verdict, names.STATE: RecordState(batch.state).name.lower()}
            of = self._held.get(offset, context)
            span = self._traces.start(verdict, of, told)
            if span is not None:
                if verdict is LOST:
                    fail(span, _LOST)
                yield Ending(offset, span, of)

    def _hold(self, offset: int, context: TraceContext) -> None:
        if len(self._held) >= _MOST_HELD:
            del self._held[next(iter(self._held))]
        self._held[offset] = context

    def _about(
        self, operation: str, type_: str, offset: int, delivery_count: int = 0
    ) -> dict[str, str | int]:
        told = self._traces.about(operation, type_)
        told |= {names.GROUP: self._group_id, names.OFFSET: offset}
        if delivery_count:
            told[names.DELIVERY] = delivery_count
        return told


def _verdict(target: RecordState, transition: Transition) -> str:
    """What was said of a run; one that used up its attempts was released."""
    if target is RecordState.ACKNOWLEDGED:
        return "accept"
    archived = target is RecordState.ARCHIVED and transition.rejected + transition.gaps > 0
    return "reject" if archived else "release"
