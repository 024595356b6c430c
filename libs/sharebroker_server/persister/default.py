"""The default persister: finds the share coordinator, batches requests, and retries with backoff.

Source: Kafka's `DefaultStatePersister` and `PersisterStateManager`. The backoff is shorter than Kafka's,
since a coordinator that moves is available again within a fraction of a second.

What happens when a write fails: see `sharebroker_server.persister.batching`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.aio import doubling
from sharebroker_server.persister.batching import RequestBatcher
from sharebroker_server.persister.messages import STATE, SUMMARY, WRITE
from sharebroker_server.persister.port import (
    Begun,
    Changes,
    LocalStates,
    Persister,
    SharePartitionState,
    StateSummary,
)

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub,
    )
    from sharebroker_server.leases.names import Shard
    from sharebroker_server.routing.router import Peer

    _Peer = Peer[ShareCoordinatorServiceAsyncStub]


RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors after which a request is retried; every request is idempotent."""

LAGGING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors of a coordinator whose metadata cache does not have a new topic yet, or of a deleted topic."""


@dataclass(frozen=True, slots=True)
class PersisterSettings:
    """Times in seconds.

    `call_timeout` covers a call with its retries, `request_timeout` one request. `metadata_lag` is the time
    in which a new topic reaches every metadata cache. The backoff between retries doubles.
    """

    call_timeout: float = 30.0
    metadata_lag: float = 1.0
    request_timeout: float = 5.0
    first_backoff: float = 0.05
    longest_backoff: float = 0.25


class ShareCoordinators(Protocol):
    """Finds the owners of share state (see `sharebroker_server.routing.router`)."""

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> Shard:
        """Where the state of a share-partition is stored."""

    async def share_coordinator(self, shard: Shard) -> Peer[ShareCoordinatorServiceAsyncStub]:
        """The owner of a shard, or the leader of a partition. Raises KafkaError."""

    def local_states(self, shard: Shard) -> LocalStates | None:
        """This process's share coordinator, if the cached owner of the shard is this process."""

    def forget_share_coordinator(self, shard: Shard) -> None:
        """Discards the known owner; the next use looks it up again."""


class DefaultPersister(Persister):
    """Stores share state through the share coordinators."""

    def __init__(self, coordinators: ShareCoordinators, settings: PersisterSettings | None = None) -> None:
        self._coordinators = coordinators
        self._settings = settings or PersisterSettings()
        self._batchers: dict[tuple[str | int, ...], RequestBatcher] = {}

    @override
    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        payload = pb.InitializeShareGroupStateRequest.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            start_offset=start_offset,
            keep_existing=since_epoch is not None,
            start_has_epoch=True,
            since_epoch=since_epoch or 0,
        )
        await self._call("InitializeShareGroupState", key, payload)

    @override
    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        state: SharePartitionState = await self._retry(key, partial(self._read, key, leader_epoch))
        return state

    @override
    def shard(self, key: SharePartitionKey) -> Shard:
        return self._coordinators.share_shard(*key)

    @override
    def begin(self, shard: Shard, changes: Changes) -> Begun | None:
        local = self._coordinators.local_states(shard)
        try:
            return None if local is None else local.write_all(shard, changes)
        except KafkaError:
            return None

    @override
    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        await self._retry(key, partial(self._write, key, change))

    @override
    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        await self._call("DeleteShareGroupState", key, key.partition, state_epoch=state_epoch)

    @override
    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        return SUMMARY.value(await self._call("ReadShareGroupStateSummary", key, key.partition))

    async def _read(self, key: SharePartitionKey, leader_epoch: int, peer: _Peer) -> SharePartitionState:
        local = self._coordinators.local_states(self.shard(key))
        if local is not None:
            return await local.read(key, leader_epoch)
        payload = pb.ReadShareGroupStateRequest.PartitionData(
            partition=key.partition, leader_epoch=leader_epoch
        )
        return STATE.value(await self._send("ReadShareGroupState", key, payload, {}, peer))

    async def _write(self, key: SharePartitionKey, change: StateWrite, peer: _Peer) -> None:
        local = self._coordinators.local_states(self.shard(key))
        if local is not None:
            await local.write(key, change)
        else:
            payload = WRITE.message(change, partition=key.partition)
            await self._send("WriteShareGroupState", key, payload, {}, peer)

    async def _call(self, rpc: str, key: SharePartitionKey, payload: Any, **fields: int) -> Any:
        """One share-partition's part of an RPC; `fields` are request fields that apply to all partitions."""
        return await self._retry(key, partial(self._send, rpc, key, payload, fields))

    def _send(
        self, rpc: str, key: SharePartitionKey, payload: Any, fields: Mapping[str, int], peer: _Peer
    ) -> Awaitable[Any]:
        """Adds a part to the next request of the RPC to the peer."""
        name: tuple[str | int, ...] = (rpc, peer.member.owner, key.group_id, *fields.values())
        if name not in self._batchers:
            method = getattr(peer.stub, rpc)
            self._batchers[name] = RequestBatcher(
                lambda message, timeout: method(message, timeout=timeout),
                partial(getattr(pb, f"{rpc}Request"), group_id=key.group_id, **fields),
                key.group_id,
                lambda: self._batchers.pop(name, None),
            )
        return self._batchers[name].request(key, payload, self._settings.request_timeout)

    async def _retry(self, key: SharePartitionKey, send: Callable[[_Peer], Awaitable[Any]]) -> Any:
        """Sends to the key's coordinator until the result is final or `call_timeout` is over."""
        clock = asyncio.get_running_loop().time
        started = clock()
        pauses = doubling(self._settings.first_backoff, self._settings.longest_backoff)
        shard = self._coordinators.share_shard(*key)
        while True:
            try:
                return await send(await self._coordinators.share_coordinator(shard))
            except KafkaError as error:
                pause = next(pauses) * random.uniform(0.8, 1.2)
                if clock() + pause >= started + self._retry_time(error):
                    raise
            self._coordinators.forget_share_coordinator(shard)
            await asyncio.sleep(pause)

    def _retry_time(self, error: KafkaError) -> float:
        """The seconds for which a call is retried after this error."""
        if error.code in LAGGING:
            return self._settings.metadata_lag
        return self._settings.call_timeout if error.code in RETRIABLE else 0.0
