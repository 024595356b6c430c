"""The calls of a gateway in the same process."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AcquireCall,
    AppendCall,
    AppendPart,
    DeliverInput,
    DeliverOpen,
)
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, TOPIC, Harness
from tests.unit.share_partition_leader.virtual_time import settle

PART = TopicIdPartition(TOPIC, 0)


async def test_appended_records_are_acquired_and_acknowledged(harness: Harness) -> None:
    (appended,) = await harness.local.append(AppendCall([AppendPart(*PART, batch(3))]), 5.0)
    assert (appended.base_offset, appended.last_offset) == (0, 2)
    (fetched,) = await harness.local.acquire(AcquireCall(GROUP, "m", [PART], 0.0, 10))
    assert [(run.first, run.last) for run in fetched.acquired] == [(0, 2)]
    acks = [AckPart(*PART, [AckBatch(0, 2, (ACCEPT,))])]
    assert await harness.local.acknowledge(AcknowledgeCall(GROUP, "m", acks), 5.0) == [AckResult(*PART)]
    assert await harness.start_offset() == 3


async def test_append_to_an_unknown_partition_has_its_error(harness: Harness) -> None:
    parts = [AppendPart(TOPIC, 9, batch(1)), AppendPart(*PART, batch(1))]
    unknown, appended = await harness.local.append(AppendCall(parts), 5.0)
    assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (appended.error_code, appended.base_offset) == (ErrorCode.NONE, 0)


async def test_closed_stream_releases_its_records(harness: Harness) -> None:
    await harness.publish(3)
    stream = harness.local.deliver(DeliverOpen(GROUP, "m"))
    await stream.send(DeliverInput(frozenset({PART}), credit=10))
    outputs = stream.outputs()
    (delivered,) = (await anext(outputs)).deliveries
    assert (delivered.topic_id, [(run.first, run.last) for run in delivered.acquired]) == (TOPIC, [(0, 2)])
    assert stream.unanswered() == ()
    await outputs.aclose()
    stream.close()
    await settle()
    (fetched,) = await harness.local.acquire(AcquireCall(GROUP, "other", [PART], 0.0, 10))
    assert [(run.first, run.last) for run in fetched.acquired] == [(0, 2)]


async def test_stream_that_never_ran_is_closed_without_its_outputs(harness: Harness) -> None:
    await harness.publish(3)
    stream = harness.local.deliver(DeliverOpen(GROUP, "m"))
    await stream.send(DeliverInput(frozenset({PART}), credit=10))
    await settle()
    stream.close()
    await settle()
    (fetched,) = await harness.local.acquire(AcquireCall(GROUP, "other", [PART], 0.0, 10))
    assert [(run.first, run.last) for run in fetched.acquired] == [(0, 2)]
