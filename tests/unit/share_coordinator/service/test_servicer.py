"""The RPCs on a memory log: one result per partition, in band."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.persister.messages import STATE
from sharebroker_server.share_coordinator.service.servicer import SUMMARIES_AT_ONCE
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


async def test_a_leader_in_the_process_reads_the_same_state(process: Process) -> None:
    await process.initialize(0)
    await process.write((0, 9, 2, 1), (12, 12, 0, 2))
    key = SharePartitionKey(GROUP, TOPIC, 0)
    [remote] = await process.read(0)
    assert await process.servicer.read(key, 1) == STATE.value(remote)
    await process.raise_lease(to=2)
    assert (await process.servicer.read(key, 2)).batches == STATE.value(remote).batches
    for stale, code in (
        (key, ErrorCode.FENCED_LEADER_EPOCH),
        (key._replace(partition=1), ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(KafkaError) as refused:
            await process.servicer.read(stale, 1)
        assert refused.value.code is code


async def test_summaries_count_waiting_records_in_portions(process: Process) -> None:
    process.topics[TOPIC] = 3 * SUMMARIES_AT_ONCE
    process.leases.clock_skew = 1000.0
    await process.initialize(*range(4))
    write = Wrote(group_id=GROUP)
    part = write.topics.add(topic_id=TOPIC).partitions.add(partition=2, state_epoch=1, leader_epoch=1)
    part.start_offset = -1
    for first, ahead in ((0, 500), (10, -500), (20, -1500)):
        batch = part.state_batches.add(first_offset=first, last_offset=first + 4, delivery_count=1)
        batch.note.not_before_ms = int((now() + ahead) * 1000)
    locked = part.state_batches.add(first_offset=30, last_offset=34, delivery_count=1)
    locked.note.not_before_ms, locked.note.holder, locked.note.lock_token = 1 << 60, "@m1", 1
    (written,) = (await process.stub.WriteShareGroupState(write)).results
    assert not written.partitions[0].error_code
    request = pb.ReadShareGroupStateSummaryRequest(group_id=GROUP)
    named = [*range(3 * SUMMARIES_AT_ONCE - 1), 2]
    request.topics.add(topic_id=TOPIC, partitions=named)
    request.topics.add(topic_id=OTHER_TOPIC, partitions=[0])
    first, other = (await process.stub.ReadShareGroupStateSummary(request)).results
    assert [row.partition for row in first.partitions] == named
    assert {row.partition: row.waiting_count for row in first.partitions if row.waiting_count} == {2: 10}
    assert {row.partition: row.locked_count for row in first.partitions if row.locked_count} == {2: 5}
    assert (other.topic_id, [row.start_offset for row in other.partitions]) == (OTHER_TOPIC, [-1])
    assert not (await process.stub.ReadShareGroupStateSummary(pb.ReadShareGroupStateSummaryRequest())).results


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
