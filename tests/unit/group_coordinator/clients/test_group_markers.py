"""Markers to the coordinators of consumer groups, beside those to leaders."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.names import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.clients.group_markers import AllMarkers, GroupMarkers
from sharebroker_server.group_coordinator.core.transactions.model import Transaction, TransactionState
from sharebroker_server.rpc.stubs import LocalStub

RECORDS = TopicIdPartition("t", 0)


class Coordinators:
    """Shards without an entry in `refusals` take the marker; it is its own router."""

    def __init__(self, **refusals: ErrorCode) -> None:
        self.refusals = {int(name.removeprefix("shard")): code for name, code in refusals.items()}
        self.asked: list[pb.CompleteTransactionRequest] = []
        self.forgotten: list[int] = []

    async def group_coordinator(self, shard: int) -> Any:
        return LocalStub(self)

    def forget_group_coordinator(self, shard: int) -> None:
        self.forgotten.append(shard)

    async def CompleteTransaction(
        self, request: pb.CompleteTransactionRequest, _context: object
    ) -> pb.CompleteTransactionResponse:
        self.asked.append(request)
        if request.shard in self.refusals:
            raise KafkaError(self.refusals[request.shard])
        return pb.CompleteTransactionResponse()


class Leaders:
    """Takes every marker but the first."""

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        assert RECORDS in partitions
        return [RECORDS]


def ending(*partitions: TopicIdPartition) -> Transaction:
    return Transaction(7, 3, 1, TransactionState.PREPARE_COMMIT, frozenset(partitions))


def shards(*numbers: int) -> list[TopicIdPartition]:
    return [TopicIdPartition(OFFSETS_TOPIC_ID, number) for number in numbers]


async def test_each_shard_gets_one_call() -> None:
    coordinators = Coordinators()
    assert await GroupMarkers(coordinators).write(ending(), shards(4, 9), 12) == []
    assert [asked.shard for asked in coordinators.asked] == [4, 9]
    asked = coordinators.asked[0]
    assert (asked.producer_id, asked.producer_epoch, asked.coordinator_epoch) == (7, 3, 12)
    assert asked.transaction_result


async def test_unreachable_shard_remains_unmarked() -> None:
    coordinators = Coordinators(shard4=ErrorCode.NOT_COORDINATOR, shard5=ErrorCode.INVALID_PRODUCER_EPOCH)
    assert await GroupMarkers(coordinators).write(ending(), shards(3, 4, 5), 12) == shards(4)
    assert coordinators.forgotten == [4]


async def test_higher_coordinator_epoch_stops_the_markers() -> None:
    coordinators = Coordinators(shard4=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with pytest.raises(KafkaError) as fenced:
        await GroupMarkers(coordinators).write(ending(), shards(4), 12)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_leaders_and_group_coordinators_get_their_markers() -> None:
    coordinators = Coordinators(shard4=ErrorCode.NOT_COORDINATOR)
    markers = AllMarkers(Leaders(), GroupMarkers(coordinators))
    assert await markers.write(ending(), [*shards(4, 5), RECORDS], 12) == [RECORDS, *shards(4)]
