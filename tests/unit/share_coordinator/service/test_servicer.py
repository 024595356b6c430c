"""The RPCs on a memory log: results a partition, in band."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, SharePartitionKey, StateBatch, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import Member
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.rpc.local import LocalStub
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.service.servicer import Host, ShareCoordinator, make_host
from sharebroker_server.stream_log.memory import Fault, MemoryStreamLog
from sharebroker_server.testkit.waiting import eventually
from tests.unit.share_coordinator.harness import OTHER_TOPIC, TOPIC

Initialized = pb.InitializeShareGroupStateRequest
Wrote = pb.WriteShareGroupStateRequest
Asked = pb.ReadShareGroupStateRequest
GROUP = "orders:eu"


class Process:
    """A share coordinator that holds every shard."""

    def __init__(self, *settings: str) -> None:
        leases = MemoryLeaseStore()
        self.log = MemoryStreamLog(leases.epoch_of)
        config = ShareCoordinatorConfig.of(BrokerConfig.parse(settings))
        self.config = replace(config, runtime=replace(config.runtime, backoff_most=0.0))
        self.holder = LeaseHolder(leases, Member("1/1", 1, frozenset({"share-coordinator"}), ""))
        self.host: Host = make_host(self.log, self.config)
        self.topics = {TOPIC: 4, OTHER_TOPIC: 1}
        self.servicer = ShareCoordinator(
            self.host,
            self.config,
            lambda topic, partition: partition < self.topics.get(topic, 0),
            Keys().log,
        )
        self.stub = LocalStub(self.servicer)

    async def start(self) -> None:
        await self.host.start(self.holder)
        await self.holder.start()
        await eventually(lambda: all(shard.state is ShardState.ACTIVE for shard in self.host.held()))

    async def initialize(
        self, *partitions: int, topic: str = TOPIC, state_epoch: int = 1, start: int = 0
    ) -> list[int]:
        asked = [
            Initialized.PartitionData(partition=p, state_epoch=state_epoch, start_offset=start)
            for p in partitions
        ]
        topics = [Initialized.TopicData(topic_id=topic, partitions=asked)]
        response = await self.stub.InitializeShareGroupState(Initialized(group_id=GROUP, topics=topics))
        return [result.error_code for result in response.results[0].partitions]

    async def write(self, *batches: tuple[int, int, int, int], partition: int = 0, start: int = -1) -> int:
        asked = Wrote.PartitionData(
            partition=partition,
            state_epoch=1,
            leader_epoch=1,
            start_offset=start,
            delivery_complete_count=1,
            state_batches=[
                pb.StateBatch(first_offset=f, last_offset=e, delivery_state=s, delivery_count=c)
                for f, e, s, c in batches
            ],
        )
        topics = [Wrote.TopicData(topic_id=TOPIC, partitions=[asked])]
        response = await self.stub.WriteShareGroupState(Wrote(group_id=GROUP, topics=topics))
        return int(response.results[0].partitions[0].error_code)

    async def read(
        self, *partitions: int, leader_epoch: int = 1
    ) -> list[pb.ReadShareGroupStateResponse.PartitionData]:
        asked = [Asked.PartitionData(partition=p, leader_epoch=leader_epoch) for p in partitions]
        topics = [Asked.TopicData(topic_id=TOPIC, partitions=asked)]
        response = await self.stub.ReadShareGroupState(Asked(group_id=GROUP, topics=topics))
        return list(response.results[0].partitions)

    async def inspect(self, partition: int = 0, topic: str = TOPIC) -> pb.InspectShareGroupStateResponse:
        request = pb.InspectShareGroupStateRequest(group_id=GROUP, topic_id=topic, partition=partition)
        response: pb.InspectShareGroupStateResponse = await self.stub.InspectShareGroupState(request)
        return response


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    process = Process()
    await process.start()
    yield process
    await process.holder.stop()


async def test_initialize_write_read_summary_delete(process: Process) -> None:
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


async def test_keys_lie_on_kafkas_shards(process: Process) -> None:
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


async def test_a_deletion_that_comes_late_spares_newer_state(process: Process) -> None:
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
async def test_an_illegal_topic_id(process: Process, topic: str) -> None:
    assert await process.initialize(0, topic=topic) == [ErrorCode.INVALID_REQUEST]


async def test_nothing_asked_nothing_answered(process: Process) -> None:
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


async def test_a_shard_held_elsewhere(process: Process) -> None:
    await process.host.stop()
    assert await process.initialize(0) == [ErrorCode.NOT_COORDINATOR]
    with pytest.raises(KafkaError) as refused:
        await process.inspect()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_write_that_fails_in_the_log_is_refused_in_band(process: Process) -> None:
    await process.initialize(0, 1)
    process.log.fail_next_append(Fault.NOT_WRITTEN)
    assert await process.write((0, 0, 2, 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await process.write((0, 0, 2, 1), partition=1) == 0


async def test_partitions_of_one_call_share_appends(process: Process) -> None:
    process.topics[TOPIC] = 500
    await process.initialize(*range(500))
    assert len(process.log.appends) == 50


async def test_a_deleted_topic(process: Process) -> None:
    await process.initialize(0, 1, 2, 3)
    await process.initialize(0, topic=OTHER_TOPIC)
    response = await process.stub.DeleteTopicState(pb.DeleteTopicStateRequest(topic_id=TOPIC))
    assert response.removed == 4
    assert {int(p.error_code) for p in await process.read(0, 1)} == {int(ErrorCode.INVALID_REQUEST)}


async def test_inspection_shows_log_and_memory_side_by_side(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    await process.write((12, 12, 0, 2))
    shown = await process.inspect()
    shard = shard_of(f"{GROUP}:{TOPIC}:0", 50)
    assert (shown.shard, shown.stream) == (shard, f"sharebroker:{{share-coordinator:{shard}}}:log")
    assert [(r.position, r.kind, r.checkpoint_epoch, r.delta_index) for r in shown.records] == [
        (1, "checkpoint", 0, 0),
        (2, "delta", 0, 0),
        (3, "delta", 0, 1),
    ]
    assert [(b.first_offset, b.last_offset) for b in shown.folded.state_batches] == [(5, 9), (12, 12)]
    assert (shown.folded.kind, shown.folded.start_offset, shown.folded.delivery_complete_count) == (
        "checkpoint",
        0,
        1,
    )
    assert shown.consistent
    assert shown.live == shown.folded


async def test_inspection_starts_at_the_latest_checkpoint(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    await process.write(start=20)
    shown = await process.inspect()
    assert [(r.position, r.kind) for r in shown.records] == [(3, "checkpoint")]
    assert (shown.folded.checkpoint_epoch, shown.folded.start_offset, shown.consistent) == (1, 20, True)


async def test_inspection_of_what_is_not_there(process: Process) -> None:
    shown = await process.inspect()
    assert (len(shown.records), shown.HasField("folded"), shown.consistent) == (0, False, True)
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    delete = pb.DeleteShareGroupStateRequest
    topics = [delete.TopicData(topic_id=TOPIC, partitions=[0])]
    await process.stub.DeleteShareGroupState(delete(group_id=GROUP, topics=topics))
    shown = await process.inspect()
    assert [(r.kind, r.delta_index) for r in shown.records] == [("tombstone", 0), ("tombstone", 0)]
    assert (shown.HasField("folded"), shown.consistent) == (False, True)


async def test_inspection_tells_when_the_log_is_not_what_memory_is(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    shard = f"share-coordinator:{shard_of(f'{GROUP}:{TOPIC}:0', 50)}"
    await process.log.trim(shard, 1, 3)
    shown = await process.inspect()
    assert (len(shown.records), shown.HasField("folded"), shown.consistent) == (0, False, False)
    assert [batch.first_offset for batch in shown.live.state_batches] == [5]


async def test_inspection_tells_what_is_no_record(process: Process) -> None:
    await process.initialize(0)
    shard = f"share-coordinator:{shard_of(f'{GROUP}:{TOPIC}:0', 50)}"
    await process.log.append(shard, 1, 2, [b"\xff"])
    with pytest.raises(KafkaError) as refused:
        await process.inspect()
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


async def test_inspection_passes_by_what_others_wrote() -> None:
    process = Process("share.coordinator.state.topic.num.partitions=1")
    await process.start()
    await process.initialize(0, 1, 2)
    await process.write((5, 9, 2, 1), partition=1)
    shown = await process.inspect(1)
    assert [(r.position, r.kind) for r in shown.records] == [(2, "checkpoint"), (4, "delta")]
    await process.holder.stop()


async def test_inspection_while_the_log_is_away(process: Process) -> None:
    await process.initialize(0)
    process.log.away = True
    with pytest.raises(KafkaError) as refused:
        await process.inspect()
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    process.log.away = False


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
