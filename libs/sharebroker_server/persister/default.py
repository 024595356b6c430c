"""The default persister: finds the share coordinator, gathers, retries with backoff until the time is up.

Source: Kafka's `DefaultStatePersister` and `PersisterStateManager`. The backoff is shorter than Kafka's,
since a coordinator that moves is back within a fraction of a second here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.aio.backoff import doubling
from sharebroker_server.cluster.router import Peer
from sharebroker_server.leases.port import Member
from sharebroker_server.persister.port import Begun, Changes, LocalStates, SharePartitionState, StateSummary
from sharebroker_server.persister.request_batcher import Lane

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub,
    )

    _Peer = Peer[ShareCoordinatorServiceAsyncStub]

RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Refusals that another try may turn; every request may be repeated."""

LAGGING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Refusals of a coordinator that has not heard of a new topic yet, or has heard that it was deleted."""


@dataclass(frozen=True, slots=True)
class PersisterSettings:
    """Times in seconds: of a whole call with its retries, of one request, of the pauses between tries, and
    within which every process knows a new topic.
    """

    call_timeout: float = 30.0
    metadata_lag: float = 1.0
    request_timeout: float = 5.0
    first_backoff: float = 0.05
    longest_backoff: float = 0.25


class Coordinators(Protocol):
    """Finds share coordinators (sharebroker_server.cluster.router)."""

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> int:
        """The shard that keeps a share-partition's state."""

    async def share_coordinator(self, shard: int) -> Peer[ShareCoordinatorServiceAsyncStub]:
        """The shard's owner. Raises KafkaError."""

    def known_share_coordinator(self, shard: int) -> Member | None:
        """The shard's owner, where it was looked up before."""

    def forget_share_coordinator(self, shard: int) -> None:
        """Look it up anew."""


class DefaultPersister:
    """See `Persister`."""

    def __init__(self, coordinators: Coordinators, settings: PersisterSettings | None = None) -> None:
        self._coordinators = coordinators
        self._settings = settings or PersisterSettings()
        self._lanes: dict[tuple[str | int, ...], Lane] = {}
        self._owner = ""
        self._local: LocalStates | None = None

    def register_local(self, owner: str, states: LocalStates) -> None:
        """Makes writes direct, without messages, where `owner`, this process, has the shard."""
        self._owner, self._local = owner, states

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        """See Persister."""
        payload = pb.InitializeShareGroupStateRequest.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            start_offset=start_offset,
            keep_existing=since_epoch is not None,
            start_has_epoch=True,
            since_epoch=since_epoch or 0,
        )
        await self._call("InitializeShareGroupState", pb.InitializeShareGroupStateRequest, key, payload)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        """See Persister."""
        payload = pb.ReadShareGroupStateRequest.PartitionData(
            partition=key.partition, leader_epoch=leader_epoch
        )
        found = await self._call("ReadShareGroupState", pb.ReadShareGroupStateRequest, key, payload)
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in found.state_batches
        )
        return SharePartitionState(found.state_epoch, found.start_offset, batches)

    def shard(self, key: SharePartitionKey) -> int:
        """See Persister."""
        return self._coordinators.share_shard(*key)

    def begin(self, shard: int, changes: Changes) -> Begun | None:
        """See Persister."""
        owner = None if self._local is None else self._coordinators.known_share_coordinator(shard)
        if self._local is None or owner is None or owner.owner != self._owner:
            return None
        try:
            return self._local.write_all(shard, changes)
        except KafkaError:
            return None

    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        """See Persister."""
        await self._try(key, partial(self._write, key, change))

    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        """See Persister."""
        request = pb.DeleteShareGroupStateRequest
        await self._call("DeleteShareGroupState", request, key, key.partition, state_epoch=state_epoch)

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """See Persister."""
        found = await self._call(
            "ReadShareGroupStateSummary", pb.ReadShareGroupStateSummaryRequest, key, key.partition
        )
        return StateSummary(
            found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count
        )

    async def _write(self, key: SharePartitionKey, change: StateWrite, peer: _Peer) -> None:
        if self._local is not None and peer.member.owner == self._owner:
            await self._local.write(key, change)
            return
        payload = pb.WriteShareGroupStateRequest.PartitionData(
            partition=key.partition,
            state_epoch=change.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
        )
        for first, last, state, count in change.batches:
            payload.state_batches.add(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
        lane = self._lane(peer, "WriteShareGroupState", pb.WriteShareGroupStateRequest, key.group_id, {})
        await lane.ask(key, payload, self._settings.request_timeout)

    async def _call(
        self, rpc: str, request: type, key: SharePartitionKey, payload: Any, **fields: int
    ) -> Any:
        """One share-partition's part of an RPC; `fields` are what the request says of all its partitions."""

        def ask(peer: _Peer) -> Awaitable[Any]:
            lane = self._lane(peer, rpc, request, key.group_id, fields)
            return lane.ask(key, payload, self._settings.request_timeout)

        return await self._try(key, ask)

    async def _try(self, key: SharePartitionKey, ask: Callable[[_Peer], Awaitable[Any]]) -> Any:
        """Asks the key's coordinator until it is answered for good or the time is up."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        pauses = doubling(self._settings.first_backoff, self._settings.longest_backoff)
        shard = self._coordinators.share_shard(*key)
        while True:
            try:
                return await ask(await self._coordinators.share_coordinator(shard))
            except KafkaError as error:
                pause = next(pauses) * random.uniform(0.8, 1.2)
                if clock() + pause >= begun + self._patience(error):
                    raise
            self._coordinators.forget_share_coordinator(shard)
            await asyncio.sleep(pause)

    def _patience(self, error: KafkaError) -> float:
        """For how many seconds a call is tried again that gets this error."""
        if error.code in LAGGING:
            return self._settings.metadata_lag
        return self._settings.call_timeout if error.code in RETRIABLE else 0.0

    def _lane(
        self,
        peer: _Peer,
        rpc: str,
        request: type,
        group_id: str,
        fields: Mapping[str, int],
    ) -> Lane:
        name: tuple[str | int, ...] = (rpc, peer.member.owner, group_id, *fields.values())
        if name not in self._lanes:
            method = getattr(peer.stub, rpc)
            self._lanes[name] = Lane(
                lambda message, timeout: method(message, timeout=timeout),
                partial(request, group_id=group_id, **fields),
                group_id,
                lambda: self._lanes.pop(name, None),
            )
        return self._lanes[name]
