"""Traced records of a led partition and the spans of their appends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.traced_records import TracedRecord
from sharebroker_server.share_partition_leader.leadership import _leader_traces
from sharebroker_server.share_partition_leader.tracing.partition_traces import LeaderTraces, PartitionTraces
from sharebroker_server.share_partition_leader.tracing.record_spans import RecordSpans
from tests.unit.share_partition_leader.tracing.spans import PARENT, FinishedSpans

TRACED = [TracedRecord(1, PARENT)]


def made() -> tuple[FinishedSpans, PartitionTraces]:
    spans = FinishedSpans()
    return spans, LeaderTraces(spans.tracer, lambda: 0.0).of("orders", 0, 0)


async def append(result: Appended | KafkaError) -> Appended:
    if isinstance(result, KafkaError):
        raise result
    return result


def appended(base: int) -> Appended:
    return Appended(base_offset=base, last_offset=0, log_append_time=0)


async def test_append_records_the_offset_and_ends_the_span() -> None:
    spans, traces = made()
    assert await traces.append(TRACED, append(appended(10))) == appended(10)
    assert (spans.names(), [offset for offset, _ in traces.offsets.within(0, 99)]) == (
        ["append orders"],
        [11],
    )
    await traces.append(TRACED, append(appended(10)))
    assert spans.names() == ["append orders"]  # the retry of a producer


async def test_a_rejected_append_fails_its_span() -> None:
    spans, traces = made()
    with pytest.raises(KafkaError):
        await traces.append(TRACED, append(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    (span,) = spans.all()
    assert not span.status.is_ok
    assert not traces.offsets


async def test_a_cancelled_caller_does_not_cancel_the_append() -> None:
    spans, traces = made()
    gate = asyncio.Event()

    async def slow() -> Appended:
        await gate.wait()
        return appended(0)

    caller = asyncio.create_task(traces.append(TRACED, slow()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (caller.cancelled(), spans.names()) == (True, ["append orders"])


@pytest.fixture
def traced() -> Iterator[None]:
    tracing.turn(FinishedSpans().tracer)
    yield
    tracing.turn(None)


def test_without_tracing_there_is_no_observer() -> None:
    assert _leader_traces() is None


@pytest.mark.usefixtures("traced")
def test_with_tracing_each_group_has_an_observer() -> None:
    traces = _leader_traces()
    assert traces is not None
    assert isinstance(traces.of("orders", 0, 0).observer("g"), RecordSpans)
