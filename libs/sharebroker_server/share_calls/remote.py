"""The calls to a leader in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.share_calls.messages import (
    acknowledge_request,
    acknowledged,
    acquire_request,
    acquisitions,
    await_request,
    settle_request,
    settlements,
)
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AcquireCall,
    Acquisition,
    SettleCall,
    Settlement,
)
from sharebroker_server.share_calls.watches import StandingWatch

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

GRACE: Final = 5.0
"""Seconds that a fetch may take longer than it waits: for loading, and the way there."""

WATCHED: Final = 5.0
"""Seconds after which a leader that has nothing says so: one that stands still says no more."""

NOTICED: Final = 1.0
"""Seconds after which that counts as noticed."""


class RemoteShareCalls:
    """`ShareCalls` over a stub."""

    __slots__ = ("_stub",)

    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    async def acquire(self, call: AcquireCall) -> Sequence[Acquisition]:
        """See ShareCalls."""
        response = await self._stub.AcquireRecords(acquire_request(call), timeout=call.max_wait + GRACE)
        return acquisitions(response.partitions)

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Sequence[Acknowledged]:
        """See ShareCalls."""
        response = await self._stub.AcknowledgeRecords(acknowledge_request(call), timeout=timeout)
        return acknowledged(response.partitions)

    async def settle(self, call: SettleCall, timeout: float) -> Sequence[Settlement]:
        """See ShareCalls."""
        response = await self._stub.SettleRecords(settle_request(call), timeout=timeout)
        return settlements(response.partitions)

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> RemoteWatch:
        """See ShareCalls. Whether there are none is for the leader to say: else it soon ends."""
        return RemoteWatch(self._stub, group_id, partitions)


class RemoteWatch(StandingWatch):
    """A call that the leader answers when it may have something, made again where nothing came of it."""

    __slots__ = ("_standing",)

    def __init__(self, stub: Stub, group_id: str, partitions: Sequence[TopicIdPartition]) -> None:
        super().__init__()
        request = await_request(group_id, partitions, WATCHED)
        self._standing = asyncio.create_task(_nothing_comes(stub, request), name="watch")
        self._standing.add_done_callback(lambda _: self.end())

    def _leave(self) -> None:
        self._standing.cancel()


async def _nothing_comes(stub: Stub, request: pb.AwaitRecordsRequest) -> None:
    with suppress(KafkaError):  # who asks for records next hears why
        while not (await stub.AwaitRecords(request, timeout=WATCHED + NOTICED)).changed:
            pass
