"""The RPCs on a memory log: one result per partition, in band."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, SharePartitionKey, StateBatch, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.share_coordinator.core.commands import Write
from sharebroker_server.share_coordinator.service.servicer import trace_write
from tests.testkit.memory.stream_log import Fault
from tests.unit.share_coordinator.harness import OTHER_TOPIC, TOPIC
from tests.unit.share_coordinator.service.process import GROUP, Process, Wrote


async def test_state_can_be_initialised_written_read_and_deleted(process: Process) -> None:
    assert await process.initialize(0, 1) == [0, 0]
    assert await process.write((0, 9, 2, 1), (12, 12, 0, 2)) == 0
    [read] = await process.read(0)
    assert (read.error_code, read.state_epoch, read.start_offset) == (0, 1, 0)
    assert [
        (b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in read.state_batches
    ] == [
        (0, 9, 2, 1),
        (12, 12, 0, 2),
    ]
    summary = pb.ReadShareGroupStateSummaryRequest
    topics = [summary.TopicData(topic_id=TOPIC, partitions=[0, 1, 2])]
    response = await process.stub.ReadShareGroupStateSummary(summary(group_id=GROUP, topics=topics))
    assert [
        (p.partition, p.error_code, p.state_epoch, p.leader_epoch, p.start_offset, p.delivery_complete_count)
        for p in response.results[0].partitions
    ] == [(0, 0, 1, 1, 0, 1), (1, 0, 1, 0, 0, 0), (2, 0, 0, 0, -1, -1)]
    delete = pb.DeleteShareGroupStateRequest
    gone = [delete.TopicData(topic_id=TOPIC, partitions=[0, 2])]
    deleted = await process.stub.DeleteShareGroupState(delete(group_id=GROUP, topics=gone))
    assert [p.error_code for p in deleted.results[0].partitions] == [0, 0]
    assert [p.error_code for p in await process.read(0, 1)] == [ErrorCode.INVALID_REQUEST, 0]


async def test_keys_map_to_kafkas_shards(process: Process) -> None:
    await process.initialize(0, 1, 2, 3)
    written = {shard for shard, _, _ in process.log.appends}
    assert written == {f"share-coordinator:{shard_of(f'{GROUP}:{TOPIC}:{n}', 50)}" for n in range(4)}


async def test_each_partition_has_its_own_result(process: Process) -> None:
    await process.initialize(0, 3)
    results = await process.read(0, 1, 3, 4, -1)
    assert [(p.partition, p.error_code) for p in results] == [
        (0, 0),
        (1, ErrorCode.INVALID_REQUEST),
        (3, 0),
        (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.INVALID_REQUEST),
    ]
    assert results[1].error_message == "Read operation on uninitialized share partition not allowed."


async def test_delayed_deletion_keeps_newer_state(process: Process) -> None:
    await process.initialize(0, state_epoch=3)
    request = pb.DeleteShareGroupStateRequest(group_id=GROUP, state_epoch=2)
    request.topics.add(topic_id=TOPIC, partitions=[0, 1])
    (topic,) = (await process.stub.DeleteShareGroupState(request)).results
    assert [part.error_code for part in topic.partitions] == [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NONE]
    request.state_epoch = 3
    (topic,) = (await process.stub.DeleteShareGroupState(request)).results
    assert [part.error_code for part in topic.partitions] == [ErrorCode.NONE, ErrorCode.NONE]
    assert not (await process.inspect(0)).HasField("folded")


@pytest.mark.parametrize("topic", ["", "not a topic id", "A" * 22])
async def test_invalid_topic_id_is_rejected(process: Process, topic: str) -> None:
    assert await process.initialize(0, topic=topic) == [ErrorCode.INVALID_REQUEST]


async def test_empty_request_returns_an_empty_response(process: Process) -> None:
    topic = Wrote.TopicData(topic_id=TOPIC, partitions=[Wrote.PartitionData()])
    for request, results in (
        (Wrote(), 0),
        (Wrote(group_id=GROUP), 0),
        (Wrote(topics=[topic]), 0),
        (Wrote(group_id=GROUP, topics=[Wrote.TopicData(topic_id=TOPIC)]), 1),
    ):
        response = await process.stub.WriteShareGroupState(request)
        assert len(response.results) == results
        assert not any(result.partitions for result in response.results)


async def test_shard_of_another_broker_is_rejected(process: Process) -> None:
    await process.host.stop()
    assert await process.initialize(0) == [ErrorCode.NOT_COORDINATOR]
    with pytest.raises(KafkaError) as refused:
        await process.inspect()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_failed_append_is_a_partition_error(process: Process) -> None:
    await process.initialize(0, 1)
    process.log.fail_next_append(Fault.NOT_WRITTEN)
    assert await process.write((0, 0, 2, 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await process.write((0, 0, 2, 1), partition=1) == 0


async def test_partitions_of_one_call_share_appends(process: Process) -> None:
    process.topics[TOPIC] = 500
    await process.initialize(*range(500))
    assert len(process.log.appends) == 50


async def test_deleted_topic_has_no_state(process: Process) -> None:
    await process.initialize(0, 1, 2, 3)
    await process.initialize(0, topic=OTHER_TOPIC)
    response = await process.stub.DeleteTopicState(pb.DeleteTopicStateRequest(topic_id=TOPIC))
    assert response.removed == 4
    assert {int(p.error_code) for p in await process.read(0, 1)} == {int(ErrorCode.INVALID_REQUEST)}


async def test_a_leader_of_the_same_process_writes_without_messages(process: Process) -> None:
    await process.initialize(0)
    key = SharePartitionKey(GROUP, TOPIC, 0)
    change = StateWrite(1, 1, 0, 1, (StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1),))
    await process.servicer.write(key, change)
    [read] = await process.read(0)
    assert [(b.first_offset, b.last_offset, b.delivery_state) for b in read.state_batches] == [(0, 9, 2)]
    with pytest.raises(KafkaError) as refused:
        await process.servicer.write(key, change._replace(state_epoch=0))
    assert refused.value.code is ErrorCode.FENCED_STATE_EPOCH
    with pytest.raises(KafkaError) as refused:
        await process.servicer.write(key._replace(partition=9), change)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_leaders_of_the_same_process_write_to_a_shard_together() -> None:
    process = Process("share.coordinator.state.topic.num.partitions=1")
    await process.start()
    await process.initialize(0, 1, 2)
    epochs = [1, 0, 1]  # the second is of an earlier state
    changes = [
        (SharePartitionKey(GROUP, TOPIC, n), StateWrite(epoch, 1, 5, 0, ())) for n, epoch in enumerate(epochs)
    ]
    first, fenced, last = await process.servicer.write_all(0, changes)
    assert (first, fenced.code, last) == (None, ErrorCode.FENCED_STATE_EPOCH, None)
    assert [part.start_offset for part in await process.read(0, 1, 2)] == [5, 0, 5]
    with pytest.raises(KafkaError) as refused:  # one partition is unknown: none of them is written
        process.servicer.write_all(
            0, [(SharePartitionKey(GROUP, TOPIC, n), StateWrite(1, 1, 7, 0, ())) for n in (0, 9)]
        )
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [part.start_offset for part in await process.read(0)] == [5]
    await process.holder.stop()


WRITE = Write(SharePartitionKey("g", "A" * 21 + "Q", 3), 1, 2, 7, 0, ())


class FakeTracer:
    def __init__(self, *, sampled: bool) -> None:
        self.sampled = sampled
        self.started: list[dict[str, Any]] = []
        self.ended: list[KafkaError | None] = []

    def current(self) -> object | None:
        return object() if self.sampled else None

    def inner(self, name: str, parent: object, attributes: dict[str, Any]) -> object:
        self.started.append(attributes)
        return name

    def end(self, span: object, error: KafkaError | None) -> None:
        self.ended.append(error)


async def test_write_outside_of_a_trace_has_no_span() -> None:
    tracer: Any = FakeTracer(sampled=False)
    trace_write(tracer, asyncio.get_running_loop().create_future(), WRITE)
    assert not tracer.started


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.FENCED_LEADER_EPOCH)])
async def test_span_of_a_write_ends_with_the_append(error: KafkaError | None) -> None:
    tracer: Any = FakeTracer(sampled=True)
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    trace_write(tracer, written, WRITE)
    assert tracer.started[0]["messaging.sharebroker.leader_epoch"] == 2
    assert not tracer.ended
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
    await asyncio.sleep(0)
    assert tracer.ended == [error]
