"""One call of each kind through the gateway, and the outcome of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.support.client import Client, decision, rejection_of, unique

TIMEOUT = 2.0


@dataclass(frozen=True)
class Outcome:
    """NONE, or the error of the call, or of the first part of it that failed."""

    code: ErrorCode
    text: str = ""

    @property
    def is_success_or_retriable(self) -> bool:
        """Returns whether the call worked or failed with a retriable error."""
        return self.code is ErrorCode.NONE or self.code.retriable


class Probes:
    """Calls on a topic with records and a group with state of it; `held` are records of its member."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic = self._topic_id = self._group_id = ""
        self._held: list[share.ShareRecord] = []

    async def prepare(self) -> None:
        """Publishes records and acquires some of them."""
        self._topic, self._topic_id = await self._client.create()
        self._group_id = await self._client.group()
        await self._client.publish(self._topic, map(str, range(100)))
        await self.hold()

    async def hold(self) -> None:
        """Acquires records, so that there is something to acknowledge."""
        self._held = await self._client.acquire_all(self._group_id, self._topic, 2, "prober")

    async def all(self, timeout: float = TIMEOUT) -> dict[str, Outcome]:
        """Makes every call at once, each with this timeout in seconds."""
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "publish": lambda: self._client.publish(self._topic, ["more"], timeout=timeout),
            "acquire": lambda: self._client.acquire(
                self._group_id, self._topic, 1, member="prober", wait=timeout / 4, timeout=timeout
            ),
            "acknowledge": lambda: self._acknowledge(timeout),
            "heartbeat": lambda: self._heartbeat(timeout),
            "create": lambda: self._create(timeout),
            "list groups": lambda: self._client.admin.ListGroups(groups.ListGroupsRequest(), timeout=timeout),
            "describe offsets": lambda: self._describe_offsets(timeout),
            "list offsets": lambda: self._list_offsets(timeout),
            "inspect": lambda: self._inspect(timeout),
        }
        outcomes = await asyncio.gather(*(_outcome(call()) for call in calls.values()))
        return dict(zip(calls, outcomes, strict=True))

    async def _acknowledge(self, timeout: float) -> None:
        request = share.AcknowledgeRequest(
            group_id=self._group_id, member_id="prober", acknowledgements=map(decision, self._held)
        )
        _check((await self._client.share.Acknowledge(request, timeout=timeout)).results)

    async def _heartbeat(self, timeout: float) -> None:
        request = groups.ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=unique("m"),
            subscribed_topic_names=groups.TopicNames(names=[self._topic]),
        )
        await self._client.share.ShareGroupHeartbeat(request, timeout=timeout)

    async def _create(self, timeout: float) -> None:
        request = cluster.CreateTopicsRequest()
        request.topics.add(name=unique("topic"))
        _check((await self._client.admin.CreateTopics(request, timeout=timeout)).topics)

    async def _describe_offsets(self, timeout: float) -> None:
        request = groups.DescribeShareGroupOffsetsRequest()
        request.groups.add(group_id=self._group_id, all_topics=True)
        found = (await self._client.admin.DescribeShareGroupOffsets(request, timeout=timeout)).groups
        _check(found)
        _check(partition for topic in found[0].topics for partition in topic.partitions)

    async def _list_offsets(self, timeout: float) -> None:
        request = leader.ListOffsetsRequest()
        request.partitions.add(topic_id=self._topic_id, partition=0, timestamp=-1)
        _check((await self._client.admin.ListOffsets(request, timeout=timeout)).partitions)

    async def _inspect(self, timeout: float) -> None:
        request = state.InspectShareGroupStateRequest(
            group_id=self._group_id, topic_id=self._topic_id, partition=0
        )
        await self._client.admin.InspectShareGroupState(request, timeout=timeout)


class _InBandError(Exception):
    pass


def _check(parts: Iterable[Any]) -> None:
    for part in parts:
        if part.error_code:
            raise _InBandError(Outcome(ErrorCode(part.error_code), part.error_message))


async def _outcome(call: Awaitable[Any]) -> Outcome:
    try:
        await call
    except _InBandError as failure:
        outcome: Outcome = failure.args[0]
        return outcome
    except grpc.aio.AioRpcError as failure:
        rejected = rejection_of(failure)
        return Outcome(rejected.code, rejected.text)
    return Outcome(ErrorCode.NONE)
