"""What leaders tell of traced records: appended, acquired, settled or lost, written.

Spans of a record are in the trace that its headers name: `append` and each `acquire` below the span that made
the record, what ended the lock below the `acquire`. A write of share state is one span for all it carries, in
the trace of the first; the others name it. Nothing of this is made in a process that does not trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.trace import Span, SpanKind

from libs.record_log.appends import Appended
from libs.record_log.core.batch import Buffer, StoredBatch
from libs.record_log.partition_log import PartitionLog
from libs.share_calls.values import AckBatch
from libs.telemetry.tracing.finding import LOOKED_INTO, Finder, Traced
from libs.telemetry.tracing.memory import Remembered, TracedOffsets
from services.share_partition_leader.core.in_flight import Transition
from services.share_partition_leader.core.partition import SharePartition
from services.share_partition_leader.core.states import AckType
from services.share_partition_leader.core.values import AcquireRequest, StateWrite
from services.share_partition_leader.service.share_group_partition import ShareGroupPartition
from services.share_partition_leader.service.story import Story
from services.share_partition_leader.service.taken import Taken
from services.share_partition_leader.service.writing import Done, StateWriter, Writes
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.tracing import names
from sharebroker.tracing.context import TraceContext
from sharebroker.tracing.limit import SpanLimit
from sharebroker.tracing.tracer import Attributes, Tracer

_RENEW: Final = int(AckType.RENEW)


class LeaderTraces:
    """Of all partitions that a process leads."""

    def __init__(self, tracer: Tracer, clock: Callable[[], float]) -> None:
        self.tracer = tracer
        self.finder = Finder(tracer, SpanLimit(LOOKED_INTO, LOOKED_INTO, clock))
        self._remembered = Remembered()

    def of(self, topic: str, partition: int, log_end_offset: int) -> PartitionTraces:
        """A partition's, from here on led by this process."""
        return PartitionTraces(self, topic, partition, TracedOffsets(self._remembered, log_end_offset))


class PartitionTraces:
    """Of one partition, whatever groups read it."""

    def __init__(self, leader: LeaderTraces, topic: str, partition: int, offsets: TracedOffsets) -> None:
        self.tracer = leader.tracer
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self._finder = leader.finder

    def find(self, data: Buffer) -> list[Traced]:
        """What is traced of the batches of a produce request."""
        return self._finder.find(data)

    def appended(self, found: Sequence[Traced], outcome: Appended | KafkaError, begun: float) -> None:
        """They are durable, or refused. A record that was appended before is told once."""
        error = outcome if isinstance(outcome, KafkaError) else None
        for place, context in found:
            told = self.about("append", names.SEND)
            if isinstance(outcome, Appended):
                told[names.OFFSET] = offset = outcome.base_offset + place
                if not self.offsets.add(offset, context):
                    continue
            span = self.start("append", context, told, begun)
            if span is not None:
                self.tracer.end(span, error)

    def look_into(self, batches: Sequence[StoredBatch]) -> None:
        """Batches that were in the log before this process led it."""
        for batch in batches:
            first, last = batch.base_offset, batch.last_offset
            if first < self.offsets.known_from and not self.offsets.within(first, last):
                for place, context in self._finder.find(batch.data):
                    self.offsets.add(first + place, context)

    def about(self, operation: str, type_: str) -> dict[str, str | int]:
        """The attributes that every span of a record has."""
        return names.about(operation, type_, self.topic, self.partition)

    def start(
        self, operation: str, parent: TraceContext, told: Attributes, at: float | None = None
    ) -> Span | None:
        """A span of a record; it names the call that brought it about, where that is traced."""
        current = self.tracer.current()
        links = [current] if current is not None and current.trace_id != parent.trace_id else []
        return self.tracer.start(f"{operation} {self.topic}", parent, SpanKind.INTERNAL, told, links, at)

    def share_partition(
        self,
        group_id: str,
        topic: str,
        log: PartitionLog,
        core: SharePartition,
        state: StateWriter,
        retire: Callable[[ShareGroupPartition], None],
    ) -> ShareGroupPartition:
        """A share-partition that tells of traced records; parameters as those of ShareGroupPartition."""
        story = Story(self, group_id)
        made = TracedShareGroupPartition(group_id, topic, log, core, TracedState(state, story), retire)
        made.story = story
        return made


class TracedState:
    """A `StateWriter` that tells of what it writes, by a task for each write: its span is the task's."""

    def __init__(self, state: StateWriter, story: Story) -> None:
        self._state = state
        self._story = story

    def due(self, writes: Writes) -> None:
        """See StateWriter."""
        asyncio.get_running_loop().call_soon(_write_alone, writes)

    async def write(self, change: StateWrite, transitions: Sequence[Transition]) -> None:
        """See StateWriter."""
        tracer, endings = self._story.tracer, self._story.writing(transitions)
        span, error = self._story.write(endings) if endings else None, None
        try:
            with tracer.within(span):
                await self._state.write(change, transitions)
        except KafkaError as failure:
            error = failure
            raise
        except Exception:  # whoever waits is told of it so
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            raise
        finally:
            if span is not None:
                tracer.end(span, error)
            self._story.written(endings, error)


def _write_alone(writes: Writes) -> None:
    if writes.take() is not None:
        writes.wait()


class TracedShareGroupPartition(ShareGroupPartition):
    """A share-partition that tells its story."""

    story: Story

    def acknowledge(self, holder: str, batches: Sequence[AckBatch], done: Done, delay: float = 0.0) -> None:
        """See ShareGroupPartition."""
        try:
            super().acknowledge(holder, batches, done, delay)
        except KafkaError as error:
            self.story.said("acknowledge", batches, error)
            raise
        renewed = [batch for batch in batches if _RENEW in batch.types]
        if renewed:
            self.story.said("renew", renewed)

    def give_back(self, holder: str, batches: Sequence[AckBatch]) -> None:
        """See ShareGroupPartition."""
        super().give_back(holder, batches)
        self.story.said("give back", batches)

    def retire(self) -> None:
        """See ShareGroupPartition."""
        if not self.retired:
            self.story.retired(self.core.held())
        super().retire()

    def _take(self, request: AcquireRequest, offset: int, batches: Sequence[StoredBatch]) -> Taken | None:
        taken = super()._take(request, offset, batches)
        if taken is not None:
            self.story.acquired(request.member, taken.acquired, batches)
        return taken

    def _persist(self, transition: Transition, done: Done | None) -> None:
        self.story.settling(transition)
        super()._persist(transition, done)
