"""Members, committed offsets and lag of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as coordinator
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.admin.partitions import list_offsets
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.rpc.errors import refusal

_LATEST = -1
_UNKNOWN = -1

Group = pb.DescribeConsumerGroupsResponse.Group
Offset = pb.DescribeConsumerGroupsResponse.Offset
Committed = Sequence[coordinator.OffsetFetchResponse.Partition]


async def describe(
    gateway: Gateway, request: pb.DescribeConsumerGroupsRequest, deadline: Deadline
) -> pb.DescribeConsumerGroupsResponse:
    """Describes each group; one that is unknown, or whose coordinator failed, has the error."""

    async def one(group_id: str) -> Group:
        try:
            return await _described(gateway, group_id, deadline)
        except KafkaError as error:
            return Group(group_id=group_id, **refusal(error))

    return pb.DescribeConsumerGroupsResponse(groups=await gateway.turns.gather(one, request.group_ids))


async def _described(gateway: Gateway, group_id: str, deadline: Deadline) -> Group:
    found = await gateway.coordinators.of_group(
        group_id,
        lambda stub, left: stub.ConsumerGroupDescribe(
            coordinator.ConsumerGroupDescribeRequest(group_id=group_id), timeout=left
        ),
        deadline,
    )
    fetched = await gateway.coordinators.of_group(
        group_id,
        lambda stub, left: stub.OffsetFetch(coordinator.OffsetFetchRequest(group_id=group_id), timeout=left),
        deadline,
    )
    described = Group(
        group_id=group_id,
        group_state=found.group_state,
        protocol_type=found.protocol_type,
        protocol_name=found.protocol_name,
    )
    for member in found.members:
        described.members.add(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id if member.HasField("group_instance_id") else None,
            client_id=member.client_id,
            client_host=member.client_host,
        )
    described.offsets.extend(await _offsets(gateway, fetched.partitions, deadline))
    return described


async def _offsets(gateway: Gateway, committed: Committed, deadline: Deadline) -> list[Offset]:
    """Returns the committed offsets of topics that exist, by topic and partition."""
    named = {
        (topic.name, one.partition): (topic.topic_id, one.committed_offset)
        for one in committed
        if one.committed_offset >= 0 and (topic := gateway.catalog.topic_by_id(one.topic_id)) is not None
    }
    places = [(topic_id, number) for (_, number), (topic_id, _) in named.items()]
    ends = await _ends(gateway, places, deadline) if places else {}
    return [
        Offset(
            topic_name=name,
            partition=number,
            committed_offset=offset,
            lag=lag_of(offset, ends.get((topic_id, number))),
        )
        for (name, number), (topic_id, offset) in sorted(named.items())
    ]


def lag_of(committed: int, end: int | None) -> int:
    """Returns the number of offsets up to the end of the log; -1 if the end is unknown."""
    return _UNKNOWN if end is None else max(end - committed, 0)


async def _ends(
    gateway: Gateway, places: Sequence[tuple[str, int]], deadline: Deadline
) -> Mapping[tuple[str, int], int]:
    """Returns the ends of the logs whose leaders respond."""
    request = leader.ListOffsetsRequest(
        partitions=[
            leader.ListOffsetsRequest.Partition(topic_id=topic_id, partition=number, timestamp=_LATEST)
            for topic_id, number in places
        ]
    )
    found = await list_offsets(gateway, request, deadline)
    return {(row.topic_id, row.partition): row.offset for row in found.partitions if not row.error_code}
