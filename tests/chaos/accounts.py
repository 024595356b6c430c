"""The system's reports after all work is done: lag, state and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharebroker.aio.admin import Admin
from sharebroker.cli.group_snapshot import read_snapshots
from sharebroker.inspection import StoredStateRecord, stored_state
from sharebroker.verification.rules import runs_of
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state_pb
from tests.support.client import TIMEOUT, Client
from tests.testkit.checker.events import Event, LagReported, LogsRead, Run, Share, StateRead

Lag = tuple[str, group_pb.DescribeShareGroupOffsetsResponse.Partition]


async def lags(client: Client, groups: Sequence[str]) -> list[Lag]:
    """Returns the lag of each share-partition, with its group."""
    request = group_pb.DescribeShareGroupOffsetsRequest()
    for group in groups:
        request.groups.add(group_id=group, all_topics=True)
    response = await client.admin.DescribeShareGroupOffsets(request, timeout=TIMEOUT)
    return [
        (described.group_id, part)
        for described in response.groups
        for topic in described.topics
        for part in topic.partitions
    ]


async def accounts(
    client: Client, topic: tuple[str, str], groups: Sequence[str], ends: Mapping[int, int], at: float
) -> list[Event]:
    """Returns the reports as events of a time; `topic` is (name, id), `ends` are the end offsets of its
    logs.
    """
    events: list[Event] = []
    for group, part in await lags(client, groups):
        where = Share(group, topic[0], part.partition)
        events.append(LagReported(at, where, ends[part.partition], part.lag))
        request = state_pb.InspectShareGroupStateRequest(
            group_id=group, topic_id=topic[1], partition=part.partition
        )
        response = await client.admin.InspectShareGroupState(request, timeout=TIMEOUT)
        state = stored_state(response).live or StoredStateRecord()
        runs = tuple(Run(*run[:5]) for run in runs_of(state))
        events.append(StateRead(at, where, state.start_offset, runs))
    return events


async def logs_read(server: str, topic: str, groups: Sequence[str], at: float) -> list[Event]:
    """Returns the contents that `sharebroker verify` reads. Raises RuntimeError if it fails."""
    events: list[Event] = []
    async with Admin(server) as admin:
        for group in groups:
            for place, surveyed in (await read_snapshots(admin, group, [topic], lambda *_: None)).items():
                if surveyed.evidence is None:
                    raise RuntimeError(f"{group} {place}: {surveyed.findings}")
                events.append(LogsRead(at, Share(group, *place), surveyed.evidence))
    return events
