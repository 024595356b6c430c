"""Which broker is asked, and what happens when it is the wrong one, or away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_client.cluster import (
    EARLIEST,
    LATEST,
    NEWEST,
    ClusterClient,
    EpochEnd,
    ListedOffset,
)
from sharebroker_server.kafka_client.core.apis import (
    DESCRIBE_CONFIGS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
)
from sharebroker_server.kafka_client.core.metadata import Leader
from sharebroker_server.kafka_client.core.topic_retention import TopicRetention
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.kafka_wire.messages import (
    DescribeConfigsResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderEpochResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from tests.testkit.tables import each
from tests.unit.kafka_client.harness import SETTINGS, Broker, failure, serving, silent

TIMEOUT = 20.0
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@dataclass
class TwoBrokers:
    """Two brokers; `leader` leads the partition t-0 with an epoch."""

    leader: int = 0
    epoch: int = 7
    error: int = 0
    cluster_id: str = "c"
    brokers: list[Broker] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    topics: list[str] = field(default_factory=lambda: ["t"])

    def respond(self, node: int) -> Any:
        async def answer(key: int, _: int, message: Any) -> Message | None:
            if key != 18:
                self.asked.append((node, key))
            if key == METADATA.key:
                assert not message.allow_auto_topic_creation
                return self.metadata(message)
            if key == LIST_OFFSETS.key:
                return self.offsets(node, message)
            if key == OFFSET_FOR_LEADER_EPOCH.key:
                return self.epoch_end(message)
            if key == DESCRIBE_CONFIGS.key:
                return self.configs(message)
            return None

        return answer

    def metadata(self, message: Any) -> Message:
        wanted = self.topics if message.topics is None else [topic.name for topic in message.topics]
        part = MetadataResponse.MetadataResponsePartition(
            partition_index=0, leader_id=self.leader, leader_epoch=self.epoch
        )
        return MetadataResponse(
            cluster_id=self.cluster_id,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=n, host="127.0.0.1", port=broker.port)
                for n, broker in enumerate(self.brokers)
            ],
            topics=[
                MetadataResponse.MetadataResponseTopic(name=name, partitions=[part])
                if name in self.topics
                else MetadataResponse.MetadataResponseTopic(name=name, error_code=3, partitions=[])
                for name in wanted
            ],
        )

    def offsets(self, node: int, message: Any) -> Message:
        ((part,),) = (topic.partitions for topic in message.topics)
        assert message.replica_id == -1
        error = self.error if node == self.leader else NOT_LEADER
        found = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=part.partition_index,
            error_code=error,
            offset=100 - message.isolation_level if part.timestamp == LATEST else 3,
            timestamp=part.timestamp,
            leader_epoch=part.current_leader_epoch,
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[found])]
        )

    def configs(self, message: Any) -> Message:
        config = DescribeConfigsResponse.DescribeConfigsResourceResult(name="retention.ms", value="60000")
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=[config]
                )
                for each in message.resources
            ]
        )

    def epoch_end(self, message: Any) -> Message:
        ((part,),) = (topic.partitions for topic in message.topics)
        end = OffsetForLeaderEpochResponse.EpochEndOffset(
            partition=part.partition, leader_epoch=part.leader_epoch, end_offset=42, error_code=self.error
        )
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic="t", partitions=[end])]
        )


@asynccontextmanager
async def world(**state: Any) -> AsyncIterator[tuple[TwoBrokers, ClusterClient]]:
    made = TwoBrokers(**state)
    made.brokers = [Broker(respond=made.respond(n)) for n in (0, 1)]
    async with serving(made.brokers[0]), serving(made.brokers[1]):
        cluster = ClusterClient([BrokerAddress("127.0.0.1", made.brokers[0].port)], SETTINGS)
        try:
            yield made, cluster
        finally:
            cluster.close()


async def test_metadata_of_all_topics_replaces_the_former_topics() -> None:
    async with world() as (made, cluster):
        await cluster.refresh()
        assert cluster.metadata.leader("t", 0) == Leader(0, 7)
        made.topics = ["u"]
        assert set((await cluster.refresh(["u"])).topics) == {"t", "u"}
        assert set((await cluster.refresh()).topics) == {"u"}


@each("leader", [0, 1])
async def test_offsets_come_from_the_leader(leader: int) -> None:
    async with world(leader=leader) as (made, cluster):
        found = [await cluster.listed_offset("t", 0, when, TIMEOUT) for when in (EARLIEST, LATEST, 1234)]
        assert found == [ListedOffset(3, -2, 7), ListedOffset(100, -1, 7), ListedOffset(3, 1234, 7)]
        assert (await cluster.listed_offset("t", 0, LATEST, TIMEOUT, committed=True)).offset == 99
        assert await cluster.epoch_end("t", 0, 5, TIMEOUT) == EpochEnd(5, 42)
        assert {node for node, key in made.asked if key != METADATA.key} == {leader}


async def test_retention_is_read_from_the_configs_of_topics() -> None:
    async with world() as (made, cluster):
        await cluster.refresh()
        await cluster.refresh_retention(["t"])
        assert cluster.retention == {"t": TopicRetention(60_000, -1)}
        await cluster.refresh_retention([])
        assert cluster.retention == {}
        assert [node for node, key in made.asked if key == DESCRIBE_CONFIGS.key] == [0]
        none = ClusterClient([], SETTINGS)
        assert (await failure(none.refresh_retention(["t"]))).code is ErrorCode.NETWORK_EXCEPTION


async def test_a_moved_leader_is_found() -> None:
    async with world() as (made, cluster):
        await cluster.listed_offset("t", 0, LATEST, TIMEOUT)
        made.leader, made.epoch = 1, 8
        assert (await cluster.listed_offset("t", 0, LATEST, TIMEOUT)).leader_epoch == 8
        assert [node for node, key in made.asked if key == LIST_OFFSETS.key] == [0, 0, 1]


async def test_another_broker_responds_after_the_bootstrap_broker_stopped() -> None:
    made = TwoBrokers(leader=1)
    made.brokers = [Broker(respond=made.respond(n)) for n in (0, 1)]
    async with serving(made.brokers[1]):
        async with serving(made.brokers[0]):
            cluster = ClusterClient([BrokerAddress("127.0.0.1", made.brokers[0].port)], SETTINGS)
            await cluster.refresh()
            (await cluster.connection(0)).close()
        assert (await cluster.refresh()).leader("t", 0) == Leader(1, 7)
        assert made.asked[-1] == (1, METADATA.key)
        cluster.close()


async def test_the_next_leader_is_found_while_the_former_host_is_silent() -> None:
    async with world(leader=1) as (made, cluster):
        await cluster.refresh()
        made.brokers[1].respond = silent
        made.leader, made.epoch = 0, 8
        assert (await cluster.listed_offset("t", 0, LATEST, 2.0)).leader_epoch == 8


async def test_a_refresh_that_its_caller_gave_up_leaves_the_broker_for_last() -> None:
    async with world() as (made, cluster):
        await cluster.refresh()
        made.brokers[0].respond = silent
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await cluster.refresh()
        async with asyncio.timeout(TIMEOUT / 4):
            await cluster.refresh()
        assert made.asked[-1] == (1, METADATA.key)


async def test_callers_that_meet_one_move_share_a_refresh() -> None:
    async with world() as (made, cluster):
        await cluster.refresh()
        made.leader, made.epoch = 1, 8
        before = len(made.asked)
        found = await asyncio.gather(*(cluster.listed_offset("t", 0, LATEST, TIMEOUT) for _ in range(50)))
        assert {each.leader_epoch for each in found} == {8}
        assert sum(key == METADATA.key for _, key in made.asked[before:]) <= 20


async def test_a_broker_of_another_cluster_is_not_used() -> None:
    async with world() as (made, cluster):
        await cluster.refresh()
        made.cluster_id = "other"
        error = await failure(cluster.refresh())
        assert "belongs to the cluster other, not to c" in error.message
        assert cluster.metadata.cluster_id == "c"


async def test_the_newest_record_is_refused_before_kafka_3() -> None:
    async with world() as (made, cluster):
        assert (await cluster.listed_offset("t", 0, NEWEST, TIMEOUT)).offset == 3
        cluster.close()
        made.brokers[0].offered[LIST_OFFSETS.key] = (0, 6)
        older = ClusterClient([BrokerAddress("127.0.0.1", made.brokers[0].port)], SETTINGS)
        error = await failure(older.listed_offset("t", 0, NEWEST, TIMEOUT))
        assert error.code is ErrorCode.UNSUPPORTED_VERSION
        older.close()


async def test_a_partition_without_leader_is_reported_at_the_deadline() -> None:
    async with world(leader=-1) as (_, cluster):
        error = await failure(cluster.listed_offset("t", 0, LATEST, 0.3))
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert "t-0" in error.message
        assert "no leader" in error.message


async def test_an_unknown_topic_is_reported_with_its_cause() -> None:
    async with world() as (_, cluster):
        error = await failure(cluster.listed_offset("other", 0, LATEST, 0.3))
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert "does not exist" in error.message


async def test_an_error_that_another_broker_would_repeat_is_raised_at_once() -> None:
    async with world(error=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) as (made, cluster):
        error = await failure(cluster.listed_offset("t", 0, LATEST, TIMEOUT))
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(made.asked) == 2


async def test_without_any_broker_the_last_failure_is_raised() -> None:
    async with serving(Broker()) as broker:
        pass
    cluster = ClusterClient([BrokerAddress("127.0.0.1", broker.port)], SETTINGS)
    assert (await failure(cluster.refresh())).code is ErrorCode.NETWORK_EXCEPTION
    assert (await failure(ClusterClient([], SETTINGS).refresh())).code is ErrorCode.NETWORK_EXCEPTION
    assert (await failure(cluster.connection(5))).code is ErrorCode.NETWORK_EXCEPTION


async def test_requests_of_another_purpose_have_a_connection_of_their_own() -> None:
    async with world() as (_, cluster):
        await cluster.refresh()
        requests, fetches = await cluster.connection(0), await cluster.connection(0, "fetches")
        assert requests is not fetches
        assert await cluster.connection(0) is requests
