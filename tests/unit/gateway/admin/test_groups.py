"""Changes of groups as gateways forward them, and the lag of a share group."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.records import ConfigRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.gateway.admin.groups import alter_offsets, delete_groups, delete_offsets, group_lag
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC

SOON = 5.0


async def test_each_attempt_sends_the_current_group_epoch(harness: Harness) -> None:
    harness.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)]
    await alter_offsets(harness.gateway, group.AlterShareGroupOffsetsRequest(group_id="g"), Deadline(SOON))
    await delete_offsets(harness.gateway, group.DeleteShareGroupOffsetsRequest(group_id="g"), Deadline(SOON))
    await delete_groups(harness.gateway, group.DeleteGroupsRequest(group_ids=["g"]), Deadline(SOON))
    assert harness.coordinator.changes == [1, 2, 3, 4]


async def test_epoch_named_by_the_caller_is_used(harness: Harness) -> None:
    change = group.AlterShareGroupOffsetsRequest(group_id="g", group_epoch=7)
    await alter_offsets(harness.gateway, change, Deadline(SOON))
    await delete_groups(
        harness.gateway, group.DeleteGroupsRequest(group_ids=["g"], group_epochs={"g": 7}), Deadline(SOON)
    )
    assert harness.coordinator.changes == [7, 7]


Row = group.DescribeShareGroupOffsetsResponse.Partition
BEGINS, ENDS = {0: 2, 1: 0}, {0: 10, 1: 4}


@pytest.fixture
def rows(harness: Harness) -> list[Row]:
    """The partitions of which the group coordinator has state; all start and end as listed above."""
    rows: list[Row] = []

    async def describe(request: Any, _: Any) -> group.DescribeShareGroupOffsetsResponse:
        response = group.DescribeShareGroupOffsetsResponse()
        response.groups.add(group_id="g").topics.add(
            topic_id=TOPIC.topic_id, topic_name=TOPIC.name, partitions=rows
        )
        return response

    def offsets(request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
        response = leader.ListOffsetsResponse()
        for part in request.partitions:
            found = ENDS if part.timestamp == -1 else BEGINS
            response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, offset=found[part.partition]
            )
        return response

    harness.coordinator.DescribeShareGroupOffsets = describe  # type: ignore[attr-defined]
    harness.leader.answer = offsets
    return rows


def reset(harness: Harness, policy: str) -> None:
    resource = ConfigResource(ResourceType.GROUP, "g")
    record = ConfigRecord(resource, "share.auto.offset.reset", policy)
    harness.gateway.catalog.catalog.apply(record, 2)


async def lag(harness: Harness, topic: str = TOPIC.name) -> int:
    return await group_lag(harness.gateway, "g", topic, Deadline(5.0))


async def test_known_lags_are_added(harness: Harness, rows: list[Row]) -> None:
    rows += [Row(partition=0, lag=3), Row(partition=1, lag=4)]
    assert (await lag(harness), await lag(harness, "")) == (7, 7)


async def test_waiting_and_archiving_records_do_not_count(harness: Harness, rows: list[Row]) -> None:
    rows += [
        Row(partition=0, lag=9, ready=2, locked=3, waiting=3, archiving=1),
        Row(partition=1, lag=4, waiting=4),
        Row(partition=2, lag=5, archiving=5),
    ]
    assert await lag(harness) == 5


async def test_a_paused_group_has_no_work(harness: Harness, rows: list[Row]) -> None:
    rows.append(Row(partition=0, lag=3))
    record = ConfigRecord(ConfigResource(ResourceType.GROUP, "g"), "share.paused", "true")
    harness.gateway.catalog.catalog.apply(record, 2)
    assert await lag(harness) == 0


async def test_lag_excludes_other_topics(harness: Harness, rows: list[Row]) -> None:
    rows += [Row(partition=0, lag=3), Row(partition=1, lag=4)]
    assert await lag(harness, "another") == 0


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 3 + 4), ("latest", 3)])
async def test_unread_partition_counts_from_its_start_offset(
    harness: Harness, rows: list[Row], policy: str, expected: int
) -> None:
    reset(harness, policy)
    rows.append(Row(partition=0, lag=3))
    assert await lag(harness) == expected


async def test_unknown_lag_of_a_partition_is_counted(harness: Harness, rows: list[Row]) -> None:
    reset(harness, "earliest")
    rows += [Row(partition=0, lag=-1), Row(partition=1, lag=0)]
    assert await lag(harness) == ENDS[0] - BEGINS[0]


async def test_failure_of_a_partition_is_raised(harness: Harness, rows: list[Row]) -> None:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    rows += [Row(partition=0, lag=3), Row(partition=1, error_code=wire(code), error_message="away")]
    with pytest.raises(KafkaError, match="away") as caught:
        await lag(harness)
    assert caught.value.code is code
