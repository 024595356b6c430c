"""An administrator, who changes the offsets of a group or deletes it while its members are away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from tests.simulation.clients import Client
from tests.simulation.plan import MOST_PARTITIONS, Change, Work
from tests.testkit.checker.events import Moved, Reset, Share

_AGAIN: Final = 0.2

_NOTHING_THERE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Administrator:
    """Retries until it succeeds: requests are rejected while the group has members or an earlier request
    runs.
    """

    def __init__(self, client: Client, topic: str, change: Change) -> None:
        self._client = client
        self._topic = topic
        self._change = change

    async def run(self, send_away: Callable[[str], Callable[[], object]]) -> None:
        """Runs at its time; `send_away` stops a group's members and returns a function that starts them
        again.
        """
        change, history = self._change, self._client.history
        await asyncio.sleep(change.at)
        history.log(f"an administrator's request: {change.work.value} of {change.group}")
        have_back = send_away(change.group)
        starts = self._starts()
        for partition in starts:
            history.add(Reset(self._client.time(), self._share(partition)))
        while True:
            if await self._is_done(starts):
                break
            await asyncio.sleep(_AGAIN)
        for partition, start in starts.items():
            history.add(Moved(self._client.time(), self._share(partition), start))
        have_back()

    def _share(self, partition: int) -> Share:
        return Share(self._change.group, self._topic, partition)

    def _starts(self) -> dict[int, int]:
        """Returns a start offset for each partition: somewhere in the log; or -1 for all: from the
        beginning.
        """
        if self._change.work is not Work.ALTER:
            return dict.fromkeys(range(MOST_PARTITIONS), -1)
        ends = self._client.history.log_ends
        return {0: self._client.random.randint(0, ends.get((self._topic, 0), 0))}

    async def _is_done(self, starts: dict[int, int]) -> bool:
        """Makes one attempt, at the group's epoch: a late or duplicate request undoes no other work."""
        epoch = await self._epoch()
        if epoch is None:
            return False
        match self._change.work:
            case Work.ALTER:
                return await self._alter(starts, epoch)
            case Work.FORGET:
                return await self._forget(epoch)
            case Work.DELETE:
                return await self._delete(epoch)

    async def _epoch(self) -> int | None:
        request = group_pb.ShareGroupDescribeRequest(group_ids=[self._change.group])
        response = await self._client.call(AdminServiceStub, "ShareGroupDescribe", request)
        if response is None or response.groups[0].error_code not in (
            ErrorCode.NONE,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            return None
        return int(response.groups[0].group_epoch)

    async def _alter(self, starts: dict[int, int], epoch: int) -> bool:
        request = group_pb.AlterShareGroupOffsetsRequest(group_id=self._change.group, group_epoch=epoch)
        topic = request.topics.add(topic_name=self._topic)
        for partition, start in starts.items():
            topic.partitions.add(partition=partition, start_offset=start)
        response = await self._client.call(AdminServiceStub, "AlterShareGroupOffsets", request)
        if response is None or response.error_code:
            return False
        return not any(part.error_code for topic in response.responses for part in topic.partitions)

    async def _forget(self, epoch: int) -> bool:
        request = group_pb.DeleteShareGroupOffsetsRequest(
            group_id=self._change.group, topic_names=[self._topic], group_epoch=epoch
        )
        response = await self._client.call(AdminServiceStub, "DeleteShareGroupOffsets", request)
        if response is None:
            return self._client.outcome.startswith(ErrorCode.GROUP_ID_NOT_FOUND.name)
        codes = [response.error_code, *(topic.error_code for topic in response.responses)]
        return all(not code or code in _NOTHING_THERE for code in codes)

    async def _delete(self, epoch: int) -> bool:
        group = self._change.group
        request = group_pb.DeleteGroupsRequest(group_ids=[group], group_epochs={group: epoch})
        response = await self._client.call(AdminServiceStub, "DeleteGroups", request)
        if response is None:
            return False
        return all(not one.error_code or one.error_code in _NOTHING_THERE for one in response.results)
