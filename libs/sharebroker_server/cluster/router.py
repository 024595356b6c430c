"""Finds the process that owns a shard or leads a partition, and a stub to call it with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import grpc

from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceStub
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceStub,
)
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.leases import names
from sharebroker_server.leases.port import LeasesUnavailable, Member
from sharebroker_server.rpc.local import LocalStub
from sharebroker_server.rpc.remote import CHANNEL_OPTIONS, RemoteStub
from sharebroker_server.share_calls.remote import RemoteShareCalls
from sharebroker_server.share_calls.values import ShareCalls

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceAsyncStub
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub,
    )
    from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
        TransactionCoordinatorServiceAsyncStub,
    )

S = TypeVar("S")

GROUP_COORDINATOR = "group-coordinator"
SHARE_COORDINATOR = "share-coordinator"
TRANSACTIONS = names.TRANSACTIONS
LEADER = "share-partition-leader"
GATEWAY = "gateway"
ROLES = (GATEWAY, GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR)

_LAST_CALLS = 60.0
"""Seconds in which calls to a process that is gone fail by themselves."""


@dataclass(frozen=True, slots=True)
class Peer(Generic[S]):
    """A process of the cluster and a stub for one of its services."""

    member: Member
    stub: S


class Ownership(Protocol):
    """Who owns what (sharebroker_server.leases.holder.LeaseHolder)."""

    async def owner_of(self, resource: str) -> Member | None:
        """Who owns it, or should; None when no process has the role."""

    def known_owner(self, resource: str) -> Member | None:
        """The same without asking anybody; None when that would be needed."""

    def forget(self, resource: str) -> None:
        """Look the owner up anew at the next call."""

    @property
    def members(self) -> Sequence[Member]:
        """Processes that are announced."""


class Members(Protocol):
    """The group coordinator of this very process (sharebroker_server.group_coordinator)."""

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        """Takes a heartbeat like the member's last one; False: send it as any other, nothing was done."""


Dial = Callable[[str, Sequence[tuple[str, Any]]], grpc.aio.Channel]


def in_the_clear(address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """A channel without TLS."""
    return grpc.aio.insecure_channel(address, options=options)


class Router:
    """Stubs by what is to be done. A service of this very process is called without a socket.

    `dial` opens channels to others.

    Every look-up raises KafkaError COORDINATOR_NOT_AVAILABLE or LEADER_NOT_AVAILABLE where there is no owner.
    """

    def __init__(
        self,
        ownership: Ownership,
        owner: str,
        *,
        group_shards: int = 50,
        share_shards: int = 50,
        transaction_shards: int = 50,
        dial: Dial = in_the_clear,
    ) -> None:
        self._ownership = ownership
        self._owner = owner
        self._dial = dial
        self._shards = {
            GROUP_COORDINATOR: group_shards,
            SHARE_COORDINATOR: share_shards,
            TRANSACTIONS: transaction_shards,
        }
        self._local: dict[type, LocalStub] = {}
        self._own: dict[type, Peer[Any]] = {}
        self._share_calls: ShareCalls | None = None
        self._members: Members | None = None
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._stubs: dict[tuple[type, str], RemoteStub] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def register_local(self, stub: type, servicer: object) -> None:
        """Makes calls to this process's own service direct."""
        self._local[stub] = LocalStub(servicer)

    def register_share_calls(self, calls: ShareCalls) -> None:
        """Makes fetches from this process's own partitions direct, without messages."""
        self._share_calls = calls

    def register_members(self, members: Members) -> None:
        """Makes heartbeats that change nothing direct, without messages, where this process coordinates."""
        self._members = members

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        """See Members; False where another process coordinates."""
        return self._members is not None and self._members.stays(group_id, member_id, member_epoch)

    def share_calls(self, peer: Peer[SharePartitionLeaderServiceAsyncStub]) -> ShareCalls:
        """How to fetch from a leader."""
        if self._share_calls is not None and self.is_self(peer.member):
            return self._share_calls
        return RemoteShareCalls(peer.stub)

    async def group_coordinator(self, shard: int) -> GroupCoordinatorServiceAsyncStub:
        """The owner of a shard of groups."""
        peer = await self._coordinator(names.shard(GROUP_COORDINATOR, shard), GroupCoordinatorServiceStub)
        return cast("GroupCoordinatorServiceAsyncStub", peer.stub)

    def group_coordinators(self) -> list[Peer[GroupCoordinatorServiceAsyncStub]]:
        """Every process with the role, once each."""
        return [
            self._peer(member, GroupCoordinatorServiceStub) for member in self._with_role(GROUP_COORDINATOR)
        ]

    async def share_coordinator(self, shard: int) -> Peer[ShareCoordinatorServiceAsyncStub]:
        """The owner of a shard of share state."""
        return await self._coordinator(names.shard(SHARE_COORDINATOR, shard), ShareCoordinatorServiceStub)

    def known_share_coordinator(self, shard: int) -> Member | None:
        """Who owns it, where that was looked up before."""
        return self._ownership.known_owner(names.shard(SHARE_COORDINATOR, shard))

    def share_coordinators(self) -> list[Peer[ShareCoordinatorServiceAsyncStub]]:
        """Every process with the role, once each."""
        return [
            self._peer(member, ShareCoordinatorServiceStub) for member in self._with_role(SHARE_COORDINATOR)
        ]

    async def transaction_coordinator(self, transactional_id: str) -> TransactionCoordinatorServiceAsyncStub:
        """The coordinator of a transactional id."""
        resource = self._transaction_resource(transactional_id)
        peer = await self._coordinator(resource, TransactionCoordinatorServiceStub)
        return cast("TransactionCoordinatorServiceAsyncStub", peer.stub)

    def transaction_coordinators(self) -> list[Peer[TransactionCoordinatorServiceAsyncStub]]:
        """Every process with the role, once each."""
        return [
            self._peer(member, TransactionCoordinatorServiceStub)
            for member in self._with_role(names.ROLES[TRANSACTIONS])
        ]

    async def catalog(self) -> ClusterServiceAsyncStub:
        """The owner of the cluster's metadata."""
        peer = await self._coordinator(names.CATALOG, ClusterServiceStub)
        return cast("ClusterServiceAsyncStub", peer.stub)

    async def leader(self, topic_id: str, partition: int) -> Peer[SharePartitionLeaderServiceAsyncStub]:
        """The leader of a partition; of one that nobody leads yet, the process that is to lead it."""
        member = await self.owner_of(names.partition(topic_id, partition))
        if member is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, "No share-partition leader is running.", retry_after=0.5
            )
        return self._peer(member, SharePartitionLeaderServiceStub)

    def known_leader(
        self, topic_id: str, partition: int
    ) -> Peer[SharePartitionLeaderServiceAsyncStub] | None:
        """As `leader`, where it was looked up before."""
        member = self._ownership.known_owner(names.partition(topic_id, partition))
        return None if member is None else self._peer(member, SharePartitionLeaderServiceStub)

    def leaders(self) -> list[Peer[SharePartitionLeaderServiceAsyncStub]]:
        """Every process with the role, once each."""
        return [self._peer(member, SharePartitionLeaderServiceStub) for member in self._with_role(LEADER)]

    def check_all_answered(self, role: str, shards: Iterable[int]) -> None:
        """Raises COORDINATOR_NOT_AVAILABLE unless each shard of a coordinator role is among `shards`."""
        missing = {*range(self._shards[role])} - {*shards}
        if missing:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{len(missing)} shards of the {role} have no owner at the moment.",
                metadata={"resource": names.shard(role, min(missing))},
                retry_after=0.2,
            )

    @property
    def members(self) -> Sequence[Member]:
        """Every process of the cluster."""
        return self._ownership.members

    def is_self(self, member: Member) -> bool:
        """Whether a member is this very process."""
        return member.owner == self._owner

    async def owner_of(self, resource: str) -> Member | None:
        """Who owns a resource, or should. Raises COORDINATOR_NOT_AVAILABLE while that cannot be known."""
        try:
            return await self._ownership.owner_of(resource)
        except LeasesUnavailable as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Owners cannot be looked up: {error}", retry_after=0.2
            ) from error

    def forget_leader(self, topic_id: str, partition: int) -> None:
        """After NOT_LEADER_OR_FOLLOWER."""
        self._ownership.forget(names.partition(topic_id, partition))

    def forget_group_coordinator(self, shard: int) -> None:
        """After NOT_COORDINATOR."""
        self._ownership.forget(names.shard(GROUP_COORDINATOR, shard))

    def forget_transaction_coordinator(self, transactional_id: str) -> None:
        """After NOT_COORDINATOR."""
        self._ownership.forget(self._transaction_resource(transactional_id))

    def forget_share_coordinator(self, shard: int) -> None:
        """After NOT_COORDINATOR."""
        self._ownership.forget(names.shard(SHARE_COORDINATOR, shard))

    def forget_catalog(self) -> None:
        """After NOT_COORDINATOR."""
        self._ownership.forget(names.CATALOG)

    def group_shard(self, group_id: str) -> int:
        """The shard a group belongs to."""
        return shard_of(group_id, self._shards[GROUP_COORDINATOR])

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> int:
        """The shard a share-partition's state belongs to."""
        return shard_of(f"{group_id}:{topic_id}:{partition}", self._shards[SHARE_COORDINATOR])

    def redial(self) -> None:
        """Calls from now on have new connections; those under way end on the old ones."""
        for address in list(self._channels):
            self._leave(address)

    async def close(self) -> None:
        """Closes every channel."""
        for task in self._closing:
            task.cancel()
        for channel in self._channels.values():
            await channel.close()

    def _transaction_resource(self, transactional_id: str) -> str:
        return names.shard(TRANSACTIONS, shard_of(transactional_id, self._shards[TRANSACTIONS]))

    async def _coordinator(self, resource: str, stub: type) -> Peer[Any]:
        member = await self.owner_of(resource)
        if member is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"Nobody owns {resource} at the moment.",
                metadata={"resource": resource},
                retry_after=0.2,
            )
        return self._peer(member, stub)

    def _with_role(self, role: str) -> list[Member]:
        return [member for member in self._ownership.members if role in member.roles]

    def _peer(self, member: Member, stub: type) -> Peer[Any]:
        if member.owner == self._owner and stub in self._local:
            own = self._own.get(stub)
            if own is None or own.member is not member:
                own = self._own[stub] = Peer(member, self._local[stub])
            return own
        key = (stub, member.address)
        if key not in self._stubs:
            if member.address not in self._channels:
                self._close_departed()
                self._channels[member.address] = self._dial(member.address, CHANNEL_OPTIONS)
            self._stubs[key] = RemoteStub(stub(self._channels[member.address]))
        return Peer(member, self._stubs[key])

    def _close_departed(self) -> None:
        """Closes the channels to processes that are gone; to one that still answers it stays open."""
        present = {member.address for member in self._ownership.members}
        for address, channel in list(self._channels.items()):
            if address not in present and channel.get_state() is not grpc.ChannelConnectivity.READY:
                self._leave(address)

    def _leave(self, address: str) -> None:
        channel = self._channels.pop(address)
        self._stubs = {key: stub for key, stub in self._stubs.items() if key[1] != address}
        closing = asyncio.create_task(channel.close(_LAST_CALLS))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
