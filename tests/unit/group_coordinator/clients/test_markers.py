"""Markers to leaders: one call each, and the result for each outcome."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.clients.markers import RoutedMarkers
from sharebroker_server.group_coordinator.core.transactions.model import Transaction, TransactionState
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import Peer
from sharebroker_server.rpc.errors import wire
from sharebroker_server.rpc.stubs import LocalStub
from tests.unit.group_coordinator.harness import FakeView

HERE, THERE, LEADERLESS, GONE = (TopicIdPartition("ta", n) for n in (0, 1, 2, 3))
NONE = ErrorCode.NONE


class Leader:
    """Returns the entry of `outcomes` for each partition."""

    def __init__(self) -> None:
        self.outcomes: dict[int, ErrorCode] = {}
        self.refusal: KafkaError | None = None
        self.requests: list[list[pb.WriteTxnMarkersRequest.Marker]] = []

    async def WriteTxnMarkers(
        self, request: pb.WriteTxnMarkersRequest, _context: object
    ) -> pb.WriteTxnMarkersResponse:
        self.requests.append(list(request.markers))
        if self.refusal is not None:
            raise self.refusal
        responses = [
            pb.WriteTxnMarkersResponse.Partition(
                topic_id=marker.topic_id,
                partition=marker.partition,
                error_code=wire(self.outcomes.get(marker.partition, NONE)),
            )
            for marker in request.markers
        ]
        return pb.WriteTxnMarkersResponse(partitions=responses)


class Leaders:
    """Partitions 0 and 3 have one leader, 1 another, 2 none."""

    def __init__(self) -> None:
        self.here, self.there = Leader(), Leader()
        self.forgotten: list[int] = []

    async def leader(self, topic_id: str, partition: int) -> Peer[Any]:
        if partition == LEADERLESS.partition:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        node, fake = (2, self.there) if partition == THERE.partition else (1, self.here)
        return Peer(ClusterMember(f"{node}/1", node, frozenset(), ""), cast("Any", LocalStub(fake)))

    def forget_leader(self, topic_id: str, partition: int) -> None:
        self.forgotten.append(partition)


class Coordinators:
    """Shards without an entry in `refusals` accept the marker."""

    def __init__(self, **refusals: ErrorCode) -> None:
        self.refusals = {int(name.removeprefix("shard")): code for name, code in refusals.items()}
        self.requests: list[consumer_groups_pb2.CompleteTransactionRequest] = []
        self.forgotten_shards: list[int] = []

    async def group_coordinator(self, shard: int) -> Any:
        return LocalStub(self)

    def forget_group_coordinator(self, shard: int) -> None:
        self.forgotten_shards.append(shard)

    async def CompleteTransaction(
        self, request: consumer_groups_pb2.CompleteTransactionRequest, _context: object
    ) -> consumer_groups_pb2.CompleteTransactionResponse:
        self.requests.append(request)
        if request.shard in self.refusals:
            raise KafkaError(self.refusals[request.shard])
        return consumer_groups_pb2.CompleteTransactionResponse()


class Brokers(Leaders, Coordinators):
    """Leaders and group coordinators."""

    def __init__(self, **refusals: ErrorCode) -> None:
        Leaders.__init__(self)
        Coordinators.__init__(self, **refusals)


@pytest.fixture
def leaders() -> Brokers:
    return Brokers()


async def left(leaders: Brokers, *partitions: TopicIdPartition, exists: bool = True) -> set[int]:
    """Returns the partitions without a marker after a round."""
    cluster = FakeView()
    if exists:
        cluster.create("a", 4, "ta")
    ending = Transaction(7, 3, 1, TransactionState.PREPARE_COMMIT, frozenset(partitions))
    return {one.partition for one in await RoutedMarkers(leaders, cluster).write(ending, partitions, 12)}


async def test_each_leader_gets_one_call(leaders: Brokers) -> None:
    assert await left(leaders, HERE, THERE, GONE) == set()
    (both,), (other,) = leaders.here.requests, leaders.there.requests
    assert [marker.partition for marker in both] == [0, 3]
    (marker,) = other
    assert (marker.topic_id, marker.partition, marker.coordinator_epoch) == ("ta", 1, 12)
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)


@pytest.mark.parametrize(
    ("outcome", "exists", "missing"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, True, set()),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, {1}),
        (ErrorCode.KAFKA_STORAGE_ERROR, True, {1}),
        (ErrorCode.UNKNOWN_TOPIC_ID, True, {1}),
        (ErrorCode.UNKNOWN_TOPIC_ID, False, set()),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, set()),
    ],
)
async def test_marker_error_decides_between_done_retry_and_fenced(
    leaders: Brokers, outcome: ErrorCode, exists: bool, missing: set[int]
) -> None:
    leaders.there.outcomes[1] = outcome
    assert await left(leaders, HERE, THERE, exists=exists) == missing
    assert set(leaders.forgotten) == missing


async def test_unresponsive_leader_is_looked_up_again(leaders: Brokers) -> None:
    leaders.here.refusal = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    assert await left(leaders, HERE, THERE, GONE) == {0, 3}
    assert leaders.forgotten == [0, 3]


async def test_a_partition_without_a_leader_waits(leaders: Brokers) -> None:
    assert await left(leaders, HERE, LEADERLESS) == {2}


async def test_higher_coordinator_epoch_stops_the_markers(leaders: Brokers) -> None:
    leaders.there.outcomes[1] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(KafkaError) as fenced:
        await left(leaders, THERE)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


RECORDS = TopicIdPartition("t", 0)


def ending(*partitions: TopicIdPartition) -> Transaction:
    return Transaction(7, 3, 1, TransactionState.PREPARE_COMMIT, frozenset(partitions))


def shards(*numbers: int) -> list[TopicIdPartition]:
    return [TopicIdPartition(OFFSETS_TOPIC_ID, number) for number in numbers]


async def test_each_shard_gets_one_call() -> None:
    coordinators = Brokers()
    assert await RoutedMarkers(coordinators, FakeView()).write(ending(), shards(4, 9), 12) == []
    assert [request.shard for request in coordinators.requests] == [4, 9]
    request = coordinators.requests[0]
    assert (request.producer_id, request.producer_epoch, request.coordinator_epoch) == (7, 3, 12)
    assert request.transaction_result


async def test_unreachable_shard_remains_unmarked() -> None:
    coordinators = Brokers(shard4=ErrorCode.NOT_COORDINATOR, shard5=ErrorCode.INVALID_PRODUCER_EPOCH)
    assert await RoutedMarkers(coordinators, FakeView()).write(ending(), shards(3, 4, 5), 12) == shards(4)
    assert coordinators.forgotten_shards == [4]


async def test_higher_coordinator_epoch_stops_the_group_markers() -> None:
    coordinators = Brokers(shard4=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with pytest.raises(KafkaError) as fenced:
        await RoutedMarkers(coordinators, FakeView()).write(ending(), shards(4), 12)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_leaders_and_group_coordinators_get_their_markers() -> None:
    coordinators = Brokers(shard4=ErrorCode.NOT_COORDINATOR)
    coordinators.here.outcomes[0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    markers = RoutedMarkers(coordinators, FakeView())
    assert await markers.write(ending(), [*shards(4, 5), RECORDS], 12) == [*shards(4), RECORDS]
