"""A share-partition that tells of traced records: a subclass, so that others have no line for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AckType, StateWrite
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.partition import SharePartition
from sharebroker_server.share_partition_leader.core.values import AcquireRequest
from sharebroker_server.share_partition_leader.partition.fetch_result import Taken
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.partition.state_writes import Done, StateWriter, Writes
from sharebroker_server.share_partition_leader.tracing.partition_traces import PartitionTraces
from sharebroker_server.share_partition_leader.tracing.record_spans import Story

_RENEW: Final = int(AckType.RENEW)


def share_partition(
    traces: PartitionTraces,
    group_id: str,
    topic: str,
    log: PartitionLog,
    core: SharePartition,
    state: StateWriter,
    retire: Callable[[ShareGroupPartition], None],
) -> ShareGroupPartition:
    """A share-partition that tells of traced records; all but `traces` as for ShareGroupPartition."""
    story = Story(traces, group_id)
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
