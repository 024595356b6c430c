"""The system's own reports at the end, and the contents of its logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from sharebroker.inspection import StoredState, StoredStateRecord, stored_state
from sharebroker.verification.rules import Evidence, runs_of
from sharebroker.verification.runs import OffsetSpan, RecordLog
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin_pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state_pb
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.batch import gaps
from tests.simulation.clients import Client
from tests.simulation.process import ATTEMPTS, Surroundings
from tests.testkit.checker.events import JournalRead, LagReported, LogsRead, Run, Share, StateRead

SETTLING: Final = 10.0
"""Seconds in which the lag must become 0 once every record is finished."""

_PAUSE: Final = 0.5
_PAGE: Final = 10
_EVERYTHING: Final = 1 << 30

Part = group_pb.DescribeShareGroupOffsetsResponse.Partition


class Accounts:
    """Queries the system as an administrator; `topic` is its name and id."""

    def __init__(self, around: Surroundings, admin: Client, topic: tuple[str, str]) -> None:
        self._around = around
        self._admin = admin
        self._topic, self._topic_id = topic

    async def look(self) -> None:
        """Reads the logs while members work, as far as they are available."""
        shares = (
            (group, *log) for group in self._around.plan.scale.groups for log in self._around.history.log_ends
        )
        for share in sorted(Share(*place) for place in shares):
            stored = await self._admin.call(AdminServiceStub, "InspectShareGroupState", self._question(share))
            state = stored_state(stored) if stored is not None else StoredState()
            if state.live is not None:
                # The group's epoch must be requested when the state is read: now it would take too long.
                await self._judge(share, state, state.live.state_epoch)

    async def take(self, deadline: float) -> None:
        """Reads each group's partitions once these are idle, or at the deadline."""
        loop, history = self._around.loop, self._around.history
        lags, deadline = await self._lags(), min(deadline, loop.now + SETTLING)
        while not all(self._at_rest(*lag) for lag in lags) and loop.now < deadline:
            await asyncio.sleep(_PAUSE)
            lags = await self._lags()
        epochs = await self._group_epochs() if self._around.plan.scale.farewell else {}
        for group, part in lags:
            share = Share(group, self._topic, part.partition)
            state = stored_state(await self._admin.admin("InspectShareGroupState", self._question(share)))
            live = state.live or StoredStateRecord()
            runs = tuple(Run(*run[:5]) for run in runs_of(live))
            history.add(StateRead(loop.now, share, live.start_offset, runs))
            await self._judge(share, state, epochs.get(group, live.state_epoch))
            history.add(await self._journal(share))
            history.add(LagReported(loop.now, share, history.log_ends.get(share.log, 0), part.lag))

    def _at_rest(self, group: str, part: Part) -> bool:
        """Returns whether nothing is pending, including records that a leader has not read from its log
        yet.
        """
        share, history = Share(group, self._topic, part.partition), self._around.history
        return not (part.error_code or part.lag or history.checker.lag(share, history.log_ends[share.log]))

    async def _lags(self) -> list[tuple[str, Part]]:
        """Returns the lag of each group's partitions, except those without records."""
        request = group_pb.DescribeShareGroupOffsetsRequest()
        for group in self._around.plan.scale.groups:
            request.groups.add(group_id=group, all_topics=True)
        response = await self._admin.admin("DescribeShareGroupOffsets", request)
        return [
            (described.group_id, part)
            for described in response.groups
            for topic in described.topics
            for part in topic.partitions
            if self._around.history.log_ends.get((self._topic, part.partition))
        ]

    async def _group_epochs(self) -> Mapping[str, int]:
        request = group_pb.ShareGroupDescribeRequest(group_ids=self._around.plan.scale.groups)
        while True:
            groups = (await self._admin.admin("ShareGroupDescribe", request)).groups
            if not any(group.error_code for group in groups):
                return {group.group_id: group.group_epoch for group in groups}
            await asyncio.sleep(_PAUSE)

    def _question(self, share: Share) -> state_pb.InspectShareGroupStateRequest:
        return state_pb.InspectShareGroupStateRequest(
            group_id=share.group, topic_id=self._topic_id, partition=share.partition
        )

    async def _judge(self, share: Share, stored: StoredState, group_epoch: int) -> None:
        queue = self._around.plan.queue
        attempts = ATTEMPTS if queue is None else queue.attempts
        evidence = Evidence(stored, await self._record_log(share), group_epoch, attempts)
        self._around.history.add(LogsRead(self._around.loop.now, share, evidence))

    async def _journal(self, share: Share) -> JournalRead:
        """Returns the failed records of a partition that are listed, read in small pages."""
        offsets, dropped = list[int](), 0
        request = admin_pb.ListFailedRecordsRequest(group_id=share.group, topic=self._topic, page_size=_PAGE)
        while True:
            page = await self._admin.admin("ListFailedRecords", request)
            for entry in page.entries:
                if entry.partition == share.partition:
                    offsets += range(entry.first_offset, entry.last_offset + 1)
            dropped += sum(each.records for each in page.dropped if each.partition == share.partition)
            if not page.next_page_token:
                return JournalRead(self._around.loop.now, share, tuple(offsets), dropped)
            request.page_token = page.next_page_token

    async def _record_log(self, share: Share) -> RecordLog:
        """Returns the log as stored, whichever process leads."""
        records, log = self._around.stores.records, names.partition(self._topic_id, share.partition)
        bounds = await records.bounds(log)
        start, end = bounds.log_start_offset, bounds.log_end_offset
        batches = await records.read(log, start, _EVERYTHING)
        return RecordLog(start, end, missing=tuple(OffsetSpan(*hole) for hole in gaps(batches, start, end)))
