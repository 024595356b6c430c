"""A share coordinator's service on a memory log."""

from __future__ import annotations

from dataclasses import replace

from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.rpc.stubs import LocalStub
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.service.partition_states import PartitionStates
from sharebroker_server.share_coordinator.service.servicer import ShareCoordinator
from sharebroker_server.share_coordinator.service.shards import Host, make_host
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.waiting import eventually
from tests.unit.share_coordinator.harness import OTHER_TOPIC, TOPIC

Initialized = pb.InitializeShareGroupStateRequest
Wrote = pb.WriteShareGroupStateRequest
Read = pb.ReadShareGroupStateRequest
GROUP = "orders:eu"


class Process:
    """A share coordinator that holds every shard."""

    def __init__(self, *settings: str) -> None:
        self.leases = MemoryLeaseStore()
        self.log = MemoryStreamLog(self.leases.epoch_of)
        config = ShareCoordinatorConfig.of(BrokerConfig.parse(settings))
        self.config = replace(config, runtime=replace(config.runtime, backoff_most=0.0))
        self.holder = LeaseHolder(self.leases, ClusterMember("1/1", 1, frozenset({"share-coordinator"}), ""))
        self.host: Host = make_host(self.log, self.config)
        self.topics = {TOPIC: 4, OTHER_TOPIC: 1}
        self.in_log = set[str]()
        self.states = PartitionStates(self.config.rules, self.config.runtime, self.in_log.__contains__)
        self.servicer = ShareCoordinator(
            self.host,
            self.states,
            self.leases,
            lambda topic, partition: partition < self.topics.get(topic, 0),
            Keys().log,
        )
        self.stub = LocalStub(self.servicer)

    async def start(self) -> None:
        for partition in range(4):
            await self.raise_lease(partition)
        await self.host.start(self.holder)
        await self.holder.start()
        await eventually(lambda: all(shard.state is ShardState.ACTIVE for shard in self.host.held()))

    async def raise_lease(self, partition: int = 0, to: int = 1) -> None:
        """Claims the lease of a partition until its epoch is `to`, as new leaders do."""
        resource = names.partition(TOPIC, partition)
        while self.leases.epoch_of(resource) < to:
            await self.leases.claim(resource, "2/1", 1e6, force=True)

    async def release_lease(self, partition: int = 0) -> None:
        """Releases the lease of a partition."""
        await self.leases.release(names.partition(TOPIC, partition), "2/1")

    async def initialize(
        self, *partitions: int, topic: str = TOPIC, state_epoch: int = 1, start: int = 0
    ) -> list[int]:
        partition_data = [
            Initialized.PartitionData(partition=p, state_epoch=state_epoch, start_offset=start)
            for p in partitions
        ]
        topics = [Initialized.TopicData(topic_id=topic, partitions=partition_data)]
        response = await self.stub.InitializeShareGroupState(Initialized(group_id=GROUP, topics=topics))
        return [result.error_code for result in response.results[0].partitions]

    async def write(self, *batches: tuple[int, int, int, int], partition: int = 0, start: int = -1) -> int:
        partition_data = Wrote.PartitionData(
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
        topics = [Wrote.TopicData(topic_id=TOPIC, partitions=[partition_data])]
        response = await self.stub.WriteShareGroupState(Wrote(group_id=GROUP, topics=topics))
        return int(response.results[0].partitions[0].error_code)

    async def read(
        self, *partitions: int, leader_epoch: int = 1
    ) -> list[pb.ReadShareGroupStateResponse.PartitionData]:
        partition_data = [Read.PartitionData(partition=p, leader_epoch=leader_epoch) for p in partitions]
        topics = [Read.TopicData(topic_id=TOPIC, partitions=partition_data)]
        response = await self.stub.ReadShareGroupState(Read(group_id=GROUP, topics=topics))
        return list(response.results[0].partitions)

    async def inspect(self, partition: int = 0, topic: str = TOPIC) -> pb.InspectShareGroupStateResponse:
        request = pb.InspectShareGroupStateRequest(group_id=GROUP, topic_id=topic, partition=partition)
        response: pb.InspectShareGroupStateResponse = await self.stub.InspectShareGroupState(request)
        return response
