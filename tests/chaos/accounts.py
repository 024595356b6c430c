"""What the system says of itself when nothing is left to do: lag and stored state of each share-partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.testkit.checker.events import Event, LagTold, Run, Share, StateRead
from sharebroker.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from sharebroker.share_coordinator.v1 import share_coordinator_pb2 as state_pb
from tests.support.client import TIMEOUT, Client

Lag = tuple[str, group_pb.DescribeShareGroupOffsetsResponse.Partition]


async def lags(client: Client, groups: Sequence[str]) -> list[Lag]:
    """Of each share-partition, with its group."""
    request = group_pb.DescribeShareGroupOffsetsRequest()
    for group in groups:
        request.groups.add(group_id=group, all_topics=True)
    answer = await client.admin.DescribeShareGroupOffsets(request, timeout=TIMEOUT)
    return [
        (told.group_id, part) for told in answer.groups for topic in told.topics for part in topic.partitions
    ]


async def accounts(
    client: Client, topic: tuple[str, str], groups: Sequence[str], ends: Mapping[int, int], at: float
) -> list[Event]:
    """As events of a time; `topic` is (name, id), `ends` where its logs end."""
    events: list[Event] = []
    for group, part in await lags(client, groups):
        where = Share(group, topic[0], part.partition)
        events.append(LagTold(at, where, ends[part.partition], part.lag))
        request = state_pb.InspectShareGroupStateRequest(
            group_id=group, topic_id=topic[1], partition=part.partition
        )
        state = (await client.admin.InspectShareGroupState(request, timeout=TIMEOUT)).folded
        runs = (
            Run(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in state.state_batches
        )
        events.append(StateRead(at, where, state.start_offset, tuple(runs)))
    return events
