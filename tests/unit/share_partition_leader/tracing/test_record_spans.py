"""Spans of traced records, from the events and effects of a share-partition."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    Event,
    LoadedState,
    Retire,
    SharePartitionSettings,
    TimerFired,
    UndoAcquire,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.tracing.partition_traces import LeaderTraces
from sharebroker_server.share_partition_leader.tracing.record_spans import RecordSpans
from tests.unit.share_partition_leader.tracing.spans import PARENT, FinishedSpans

ACCEPT, RELEASE, RENEW = (1,), (2,), (4,)
LOCK = 30.0


class Harness:
    """Ten records acquired by member m, of which those at `traced` are traced."""

    def __init__(self, *traced: int) -> None:
        self.spans = FinishedSpans()
        traces = LeaderTraces(self.spans.tracer, lambda: 0.0).of("orders", 0, 0)
        for offset in traced:
            traces.offsets.add(offset, PARENT)
        self.observer = RecordSpans(traces, "g")
        self.partition = SharePartition(SharePartitionSettings(lock_duration=LOCK), LoadedState(1, 1, 0))
        self.handle(Acquire(AcquireRequest("@m", 10, 10), 0, [(0, 9)]))

    def handle(self, event: Event, now: float = 0.0) -> None:
        try:
            effects = self.partition.handle(event, now)
        except KafkaError as error:
            self.observer.rejected(event, error)
        else:
            self.observer.observe(event, effects)

    def acknowledge(self, offset: int, types: Sequence[int], member: str = "@m") -> None:
        self.handle(Acknowledge(member, [AckBatch(offset, offset, types)], lambda _: None))

    def write(self, error: KafkaError | None = None) -> None:
        assert self.partition.next_write() is not None
        self.observer.write_started()
        self.handle(WriteCompleted(error))

    def names(self) -> list[str]:
        return [name.removesuffix(" orders") for name in self.spans.names()]


def test_untraced_records_have_no_spans() -> None:
    harness = Harness()
    harness.acknowledge(3, ACCEPT)
    harness.write()
    assert harness.names() == []


def test_an_acknowledgement_ends_with_its_write() -> None:
    harness = Harness(3)
    harness.acknowledge(3, ACCEPT)
    assert harness.names() == ["acquire"]
    harness.write()
    assert harness.names() == ["acquire", "write state", "accept"]
    acquire, write, accept = harness.spans.all()
    assert accept.parent is not None
    assert accept.parent.span_id == acquire.context.span_id
    assert write.parent is not None
    assert write.parent.span_id == accept.context.span_id


def test_a_failed_write_fails_its_spans() -> None:
    harness = Harness(3)
    harness.acknowledge(3, RELEASE)
    harness.write(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert harness.names() == ["acquire", "write state", "release"]
    assert all(not span.status.is_ok for span in harness.spans.all()[1:])


def test_one_write_span_links_to_all_traced_records() -> None:
    harness = Harness(3, 4)
    harness.acknowledge(3, ACCEPT)
    harness.acknowledge(4, ACCEPT)
    harness.write()
    assert harness.names() == ["acquire", "acquire", "write state", "accept", "accept"]
    assert len(harness.spans.all()[-1].links) == 1


def test_a_write_without_traced_records_has_no_span() -> None:
    harness = Harness(3)
    harness.acknowledge(5, ACCEPT)
    assert harness.partition.next_write() is not None
    assert harness.observer.write_started() is None
    harness.handle(WriteCompleted(None))
    assert harness.names() == ["acquire"]


def test_rejections_renewals_and_undone_acquisitions_end_at_once() -> None:
    harness = Harness(3)
    harness.acknowledge(3, ACCEPT, member="@other")
    harness.acknowledge(3, RENEW)
    harness.handle(UndoAcquire("@m", [AckBatch(3, 3, RELEASE)]))
    assert harness.names() == ["acquire", "acknowledge", "renew", "undo acquire"]
    assert not harness.spans.all()[1].status.is_ok


def test_a_lock_timeout_is_a_lost_lock() -> None:
    harness = Harness(3)
    harness.handle(TimerFired(), LOCK)
    harness.write()
    assert harness.names() == ["acquire", "write state", "lock lost"]


def test_retiring_ends_held_and_waiting_records() -> None:
    harness = Harness(3, 4)
    harness.acknowledge(4, ACCEPT)
    harness.handle(Retire())
    assert sorted(harness.names()) == ["accept", "acquire", "acquire", "lock lost", "lock lost"]
