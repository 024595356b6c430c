"""Finds the process that owns a shard or leads a partition, and returns a stub for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import grpc

from sharebroker_protocol.cluster.v1 import cluster_pb2_grpc as cluster
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2_grpc as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2_grpc as states
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as leaders
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2_grpc as transactions
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.leader_calls.remote import RemoteLeader
from sharebroker_server.leader_calls.values import LeaderCalls
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember, LeasesUnavailable
from sharebroker_server.rpc.stubs import CHANNEL_OPTIONS, LocalStub, Metadata, RemoteStub

S = TypeVar("S")

GROUP_COORDINATOR = names.GROUP_COORDINATOR
SHARE_COORDINATOR = names.SHARE_COORDINATOR
TRANSACTIONS = names.TRANSACTIONS
LEADER = "share-partition-leader"
GATEWAY = "gateway"
ROLES = (GATEWAY, GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR)

_CLOSE_GRACE = 60.0
"""Seconds that calls in flight have to end after their channel was dropped."""


@dataclass(frozen=True, slots=True)
class Peer(Generic[S]):
    """A process of the cluster and a stub for one of its services."""

    member: ClusterMember
    stub: S


if TYPE_CHECKING:
    from sharebroker_server.leases.names import Shard

    _LeaderPeer = Peer[leaders.SharePartitionLeaderServiceAsyncStub]
else:
    _LeaderPeer = Peer


@dataclass(frozen=True, slots=True)
class LeaderPeer(_LeaderPeer):
    """A process that leads partitions. `calls` needs no messages if it is this process."""

    calls: LeaderCalls


class OwnerLookup(Protocol):
    """The owners of resources (sharebroker_server.leases.holder.LeaseHolder)."""

    async def owner_of(self, resource: str) -> ClusterMember | None:
        """The owner, or the member that is to claim the resource; None if no process has the role."""

    def known_owner(self, resource: str) -> ClusterMember | None:
        """The cached owner; None if the store has to be queried."""

    def forget(self, resource: str) -> None:
        """Drops the cached owner."""

    @property
    def members(self) -> Sequence[ClusterMember]:
        """The announced processes."""


Dial = Callable[[str, Sequence[tuple[str, Any]]], grpc.aio.Channel]


def in_the_clear(address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """A channel without TLS."""
    return grpc.aio.insecure_channel(address, options=options)


@dataclass(frozen=True, slots=True)
class PeerConnector:
    """How this process calls its peers: `dial` opens a channel, `identify` returns the metadata of a call."""

    dial: Dial = in_the_clear
    identify: Callable[[], Metadata] | None = None


def _nowhere(_topic_id: str) -> bool:
    return False


class Router:
    """Finds owners through leases and calls this process's own services without a socket.

    `connector` connects to other processes. Every look-up raises KafkaError COORDINATOR_NOT_AVAILABLE or
    LEADER_NOT_AVAILABLE if there is no owner.
    """

    def __init__(
        self,
        ownership: OwnerLookup,
        owner: str,
        *,
        group_shards: int = 50,
        share_shards: int = 50,
        transaction_shards: int = 50,
        connector: PeerConnector | None = None,
    ) -> None:
        self._ownership = ownership
        self._owner = owner
        self._connector = connector or PeerConnector()
        self._shards = {
            GROUP_COORDINATOR: group_shards,
            SHARE_COORDINATOR: share_shards,
            TRANSACTIONS: transaction_shards,
        }
        self._share_shards = names.shards(SHARE_COORDINATOR, share_shards)
        self._local: dict[type, LocalStub] = {}
        self._own: dict[type, Peer[Any]] = {}
        self._calls: dict[type, Any] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._stubs: dict[tuple[type, str], RemoteStub] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.state_in_log: Callable[[str], bool] = _nowhere
        """Whether the topic with an id has the state of its share groups in its own logs."""

    def register_local(self, stub: type, servicer: object, calls: object | None = None) -> None:
        """Makes calls to this process's own service direct.

        `calls`: an object with the same operations on plain values; see `local_calls`.
        """
        self._local[stub] = LocalStub(servicer)
        self._calls[stub] = calls

    def local_calls(self, stub: type) -> Any:
        """The object that this process's own service registered for calls without messages, or None."""
        return self._calls.get(stub)

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        """Applies an unchanged heartbeat at this process's group coordinator.

        False: send a heartbeat message; nothing was applied.
        """
        members = self.local_calls(groups.GroupCoordinatorServiceStub)
        return members is not None and members.stays(group_id, member_id, member_epoch)

    async def group_coordinator(self, shard: int) -> groups.GroupCoordinatorServiceAsyncStub:
        """The owner of a shard of groups."""
        peer = await self._coordinator(
            names.shard(GROUP_COORDINATOR, shard), groups.GroupCoordinatorServiceStub
        )
        return cast("groups.GroupCoordinatorServiceAsyncStub", peer.stub)

    def group_coordinators(self) -> list[Peer[groups.GroupCoordinatorServiceAsyncStub]]:
        """The processes with the role, each once."""
        return [
            self._peer(member, groups.GroupCoordinatorServiceStub)
            for member in self._with_role(GROUP_COORDINATOR)
        ]

    async def share_coordinator(self, shard: Shard) -> Peer[states.ShareCoordinatorServiceAsyncStub]:
        """The owner of a shard of share state, or the leader of the partition that has it."""
        return await self._coordinator(self.state_resource(shard), states.ShareCoordinatorServiceStub)

    def local_states(self, shard: Shard) -> Any:
        """This process's share coordinator, if the cached owner of the shard is this process, else None."""
        owner = self._ownership.known_owner(self.state_resource(shard))
        return (
            None
            if owner is None or owner.owner != self._owner
            else self.local_calls(states.ShareCoordinatorServiceStub)
        )

    def share_coordinators(self) -> list[Peer[states.ShareCoordinatorServiceAsyncStub]]:
        """The processes with the role, each once."""
        return [
            self._peer(member, states.ShareCoordinatorServiceStub)
            for member in self._with_role(SHARE_COORDINATOR)
        ]

    async def transaction_coordinator(
        self, transactional_id: str
    ) -> transactions.TransactionCoordinatorServiceAsyncStub:
        """The coordinator of a transactional id."""
        resource = self._transaction_resource(transactional_id)
        peer = await self._coordinator(resource, transactions.TransactionCoordinatorServiceStub)
        return cast("transactions.TransactionCoordinatorServiceAsyncStub", peer.stub)

    def transaction_coordinators(self) -> list[Peer[transactions.TransactionCoordinatorServiceAsyncStub]]:
        """The processes with the role, each once."""
        return [
            self._peer(member, transactions.TransactionCoordinatorServiceStub)
            for member in self._with_role(names.ROLE_BY_KIND[TRANSACTIONS])
        ]

    async def catalog(self) -> cluster.ClusterServiceAsyncStub:
        """The owner of the cluster's metadata."""
        peer = await self._coordinator(names.CATALOG, cluster.ClusterServiceStub)
        return cast("cluster.ClusterServiceAsyncStub", peer.stub)

    async def leader(self, topic_id: str, partition: int) -> LeaderPeer:
        """The leader of a partition; without one, the process that is to lead it."""
        member = await self.owner_of(names.partition(topic_id, partition))
        if member is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, "No share-partition leader is running.", retry_after=0.5
            )
        return self._leader_peer(member)

    def known_leader(self, topic_id: str, partition: int) -> LeaderPeer | None:
        """The cached leader of a partition."""
        member = self._ownership.known_owner(names.partition(topic_id, partition))
        return None if member is None else self._leader_peer(member)

    def leaders(self) -> list[LeaderPeer]:
        """The processes with the role, each once."""
        return [self._leader_peer(member) for member in self._with_role(LEADER)]

    def check_all_answered(self, role: str, shards: Iterable[int]) -> None:
        """Raises COORDINATOR_NOT_AVAILABLE if a shard of a coordinator role is missing in `shards`."""
        missing = {*range(self._shards[role])} - {*shards}
        if missing:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{len(missing)} shards of the {role} have no owner now.",
                metadata={"resource": names.shard(role, min(missing))},
                retry_after=0.2,
            )

    @property
    def members(self) -> Sequence[ClusterMember]:
        """The processes of the cluster."""
        return self._ownership.members

    def is_self(self, member: ClusterMember) -> bool:
        """Whether a member is this process."""
        return member.owner == self._owner

    async def owner_of(self, resource: str) -> ClusterMember | None:
        """The owner of a resource, or the member that is to claim it.

        Raises COORDINATOR_NOT_AVAILABLE while the lease store is unavailable.
        """
        try:
            return await self._ownership.owner_of(resource)
        except LeasesUnavailable as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"The owner cannot be looked up: {error}",
                retry_after=0.2,
            ) from error

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """Drops the cached leader, after NOT_LEADER_OR_FOLLOWER."""
        self._ownership.forget(names.partition(topic_id, partition))

    def forget_group_coordinator(self, shard: int) -> None:
        """Drops the cached owner, after NOT_COORDINATOR."""
        self._ownership.forget(names.shard(GROUP_COORDINATOR, shard))

    def forget_transaction_coordinator(self, transactional_id: str) -> None:
        """Drops the cached owner, after NOT_COORDINATOR."""
        self._ownership.forget(self._transaction_resource(transactional_id))

    def forget_share_coordinator(self, shard: Shard) -> None:
        """Drops the cached owner, after NOT_COORDINATOR."""
        self._ownership.forget(self.state_resource(shard))

    def forget_catalog(self) -> None:
        """Drops the cached owner, after NOT_COORDINATOR."""
        self._ownership.forget(names.CATALOG)

    def group_shard(self, group_id: str) -> int:
        """The shard of a group."""
        return shard_of(group_id, self._shards[GROUP_COORDINATOR])

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> Shard:
        """Where the state of a share-partition is stored."""
        if self.state_in_log(topic_id):
            return names.partition(topic_id, partition)
        return shard_of(f"{group_id}:{topic_id}:{partition}", self._shards[SHARE_COORDINATOR])

    def redial(self) -> None:
        """Opens new connections for further calls; calls in flight end on the old ones."""
        for address in list(self._channels):
            self._drop_channel(address)

    async def close(self) -> None:
        """Closes every channel."""
        for task in self._closing:
            task.cancel()
        for channel in self._channels.values():
            await channel.close()

    def state_resource(self, shard: Shard) -> str:
        """The resource whose owner has the state of a shard."""
        return shard if isinstance(shard, str) else self._share_shards[shard]

    def _transaction_resource(self, transactional_id: str) -> str:
        return names.shard(TRANSACTIONS, shard_of(transactional_id, self._shards[TRANSACTIONS]))

    async def _coordinator(self, resource: str, stub: type) -> Peer[Any]:
        member = await self.owner_of(resource)
        if member is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{resource} has no owner now.",
                metadata={"resource": resource},
                retry_after=0.2,
            )
        return self._peer(member, stub)

    def _with_role(self, role: str) -> list[ClusterMember]:
        return [member for member in self._ownership.members if role in member.roles]

    def _peer(self, member: ClusterMember, stub: type) -> Peer[Any]:
        if member.owner == self._owner and stub in self._local:
            own = self._own.get(stub)
            if own is None or own.member is not member:
                own = self._own[stub] = Peer(member, self._local[stub])
            return own
        key = (stub, member.address)
        if key not in self._stubs:
            if member.address not in self._channels:
                self._close_departed()
                self._channels[member.address] = self._connector.dial(member.address, CHANNEL_OPTIONS)
            channel = self._channels[member.address]
            self._stubs[key] = RemoteStub(stub(channel), self._connector.identify)
        return Peer(member, self._stubs[key])

    def _leader_peer(self, member: ClusterMember) -> LeaderPeer:
        stub = self._peer(member, leaders.SharePartitionLeaderServiceStub).stub
        local = self._calls.get(leaders.SharePartitionLeaderServiceStub)
        calls = local if local is not None and member.owner == self._owner else RemoteLeader(stub)
        return LeaderPeer(member, stub, calls)

    def _close_departed(self) -> None:
        """Closes the channels to processes that left, except those that are still connected."""
        present = {member.address for member in self._ownership.members}
        for address, channel in list(self._channels.items()):
            if address not in present and channel.get_state() is not grpc.ChannelConnectivity.READY:
                self._drop_channel(address)

    def _drop_channel(self, address: str) -> None:
        channel = self._channels.pop(address)
        self._stubs = {key: stub for key, stub in self._stubs.items() if key[1] != address}
        closing = asyncio.create_task(channel.close(_CLOSE_GRACE))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
