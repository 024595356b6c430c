"""Calls to coordinators, the owner of the catalog and share-partition leaders, retried where the owner moved.

A call that does not find its coordinator is retried until its deadline. Calls to leaders are grouped by
leader and retried where a partition moved.

A share session binds its leaders when it opens: `Routes` maps each of its partitions to the leader that
serves it, so that a request needs no look-up. A route is dropped when a result reports that the partition
moved, or when the call to the leader fails; the next request binds it again. Callers without a session
pass no routes and use the router's cache of owners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.aio import doubling, gather_in_portions
from sharebroker_server.leader_calls.messages import release_request
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AppendCall,
    AppendPart,
    AppendResult,
    ReconcileCall,
    ReconcileResult,
    RecordsWatch,
)
from sharebroker_server.leader_calls.watches import JointWatch
from sharebroker_server.routing.router import LeaderPeer, Router
from sharebroker_server.rpc.stubs import NOT_SENT

if TYPE_CHECKING:
    from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceAsyncStub
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )
    from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
        TransactionCoordinatorServiceAsyncStub,
    )
    from sharebroker_server.leases.names import Shard

REQUEST_TIMEOUT: Final = 30.0
"""Time limit of a call without a deadline (Kafka: request.timeout.ms)."""


S = TypeVar("S")
T = TypeVar("T")

_GroupCall = Callable[["GroupCoordinatorServiceAsyncStub", float], Awaitable[T]]
_ShareStateCall = Callable[["ShareCoordinatorServiceAsyncStub", float], Awaitable[T]]
_TransactionCall = Callable[["TransactionCoordinatorServiceAsyncStub", float], Awaitable[T]]

MOVED_COORDINATOR: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors of a coordinator that moved or is still loading: a retry soon may succeed."""

_FIRST_DELAY: Final = 0.01
_LONGEST_DELAY: Final = 0.5
_PORTION: Final = 500
"""Parts of a request whose leaders are found in one turn of the event loop."""


class Backoff:
    """Pauses that double, within a deadline."""

    __slots__ = ("_deadline", "_pauses")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)

    async def pause(self) -> bool:
        """Waits for the next pause; returns False at once if the deadline is sooner."""
        pause = next(self._pauses)
        if self._deadline.remaining() <= pause:
            return False
        await asyncio.sleep(pause)
        return True


async def retry_until_found(
    attempt: Callable[[float], Awaitable[T]], forget: Callable[[], None], deadline: Deadline
) -> T:
    """Calls `attempt(remaining seconds)` until it finds the coordinator; `forget` drops a stale one.

    Raises the KafkaError of the last attempt.
    """
    backoff = Backoff(deadline)
    while True:
        try:
            return await attempt(deadline.remaining())
        except KafkaError as error:
            if error.code not in MOVED_COORDINATOR:
                raise
            forget()
            if not await backoff.pause():
                raise


def raise_moved(code: int, message: str) -> None:
    """Raises the error of a response if the coordinator moved, so that `retry_until_found` retries."""
    if code in MOVED_COORDINATOR:
        raise KafkaError(ErrorCode(code), message)


class Coordinators:
    """Finds the owner for each call and retries if it moved. `send` gets the stub and a timeout.

    Every call raises KafkaError.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def of_group(self, group_id: str, send: _GroupCall[T], deadline: Deadline) -> Awaitable[T]:
        """Calls the coordinator of a group."""
        return self.of_groups(self._router.group_shard(group_id), send, deadline)

    def of_groups(self, shard: int, send: _GroupCall[T], deadline: Deadline) -> Awaitable[T]:
        """Calls the owner of a shard of groups."""
        router = self._router
        forget = partial(router.forget_group_coordinator, shard)
        return _call(partial(router.group_coordinator, shard), forget, send, deadline)

    def of_share_state(self, shard: Shard, send: _ShareStateCall[T], deadline: Deadline) -> Awaitable[T]:
        """Calls the process that has share state."""
        forget = partial(self._router.forget_share_coordinator, shard)

        async def find() -> ShareCoordinatorServiceAsyncStub:
            return (await self._router.share_coordinator(shard)).stub

        return _call(find, forget, send, deadline)

    def of_transaction(
        self, transactional_id: str, send: _TransactionCall[T], deadline: Deadline
    ) -> Awaitable[T]:
        """Calls the coordinator of a transactional id."""
        router = self._router
        forget = partial(router.forget_transaction_coordinator, transactional_id)
        return _call(partial(router.transaction_coordinator, transactional_id), forget, send, deadline)

    def of_catalog(
        self, send: Callable[[ClusterServiceAsyncStub, float], Awaitable[T]], deadline: Deadline
    ) -> Awaitable[T]:
        """Calls the owner of the catalog."""
        return _call(self._router.catalog, self._router.forget_catalog, send, deadline)


def _call(
    find: Callable[[], Awaitable[S]],
    forget: Callable[[], None],
    send: Callable[[S, float], Awaitable[T]],
    deadline: Deadline,
) -> Awaitable[T]:
    async def attempt(seconds: float) -> T:
        return await send(await find(), seconds)

    return retry_until_found(attempt, forget, deadline)


MOVED_PARTITION: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
"""Errors of a partition whose leader changes: a request to the new leader may succeed."""

Routes = dict[TopicIdPartition, LeaderPeer]


class PartRequest(Protocol):
    """The part of a request that concerns one partition."""

    @property
    def topic_id(self) -> str: ...  # noqa: D102 - as in the protos
    @property
    def partition(self) -> int: ...  # noqa: D102 - as in the protos


class PartResult(PartRequest, Protocol):
    """The part of a result that concerns one partition."""

    @property
    def error_code(self) -> Any: ...  # noqa: D102 - as in the protos
    @property
    def error_message(self) -> str: ...  # noqa: D102 - as in the protos


A = TypeVar("A", bound=PartRequest)
R = TypeVar("R", bound=PartResult)
M = TypeVar("M")
_Groups = dict[str, tuple[LeaderPeer, list[A]]]
"""Parts by the process that leads them."""

_SendTo = Callable[[LeaderPeer, list[A], float], Awaitable[Iterable[R]]]


class Leaders:
    """Sends each part of a request to its partition's leader, in one call per leader."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def forward(
        self,
        rpc: Callable[[Stub], Callable[..., Awaitable[M]]],
        request: Any,
        response: Callable[..., M],
        deadline: Deadline,
    ) -> M:
        """Sends each of the request's `partitions` to its leader, with the other fields, by one RPC.

        The response has one result per partition, in order.
        """
        common = type(request)()
        common.CopyFrom(request)
        common.ClearField("partitions")

        async def send(peer: LeaderPeer, partitions: list[Any], seconds: float) -> Iterable[Any]:
            part = type(request)()
            part.CopyFrom(common)
            part.partitions.extend(partitions)
            sent: Any = await rpc(peer.stub)(part, timeout=seconds)
            return list(sent.partitions)

        make: Any = response
        return response(partitions=await self._each(request.partitions, send, make.Partition, deadline))

    def acknowledge(
        self, call: AcknowledgeCall, deadline: Deadline, routes: Routes | None = None
    ) -> Coroutine[Any, Any, list[AckResult]]:
        """One result per part of the call, in order."""

        def send(peer: LeaderPeer, parts: list[AckPart], seconds: float) -> Awaitable[Iterable[AckResult]]:
            return peer.calls.acknowledge(call._replace(parts=parts), seconds)

        return self._each(call.parts, send, AckResult, deadline, routes)

    def reconcile(self, call: ReconcileCall, timeout: float) -> Coroutine[Any, Any, list[ReconcileResult]]:
        """One result per part of the call, in order. Sent once: the caller retries."""

        def send(peer: LeaderPeer, parts: list[AckPart], _: float) -> Awaitable[Iterable[ReconcileResult]]:
            return peer.calls.reconcile(call._replace(parts=parts), timeout)

        return self._each(call.parts, send, ReconcileResult, Deadline(0))

    def append(self, call: AppendCall, deadline: Deadline) -> Coroutine[Any, Any, list[AppendResult]]:
        """One result per part of the call, in order."""

        def send(
            peer: LeaderPeer, parts: list[AppendPart], seconds: float
        ) -> Awaitable[Iterable[AppendResult]]:
            return peer.calls.append(call._replace(parts=parts), seconds)

        return self._each(call.parts, send, AppendResult, deadline)

    async def release(
        self,
        group_id: str,
        member_id: str,
        principal: str,
        partitions: Iterable[TopicIdPartition],
        session_id: str = "",
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """Releases the records that a principal's member holds, or those that one share session acquired.

        Raises KafkaError.
        """
        peers, _ = await self.by_leader(partitions)
        calls = (
            peer.stub.ReleaseMember(
                release_request(group_id, member_id, principal, parts, session_id), timeout=timeout
            )
            for peer, parts in peers
        )
        await asyncio.gather(*calls)

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> RecordsWatch | None:
        """A watch of partitions without records; None if some have records, or a leader is not known."""
        leaders, unknown = await self._by_known_leader(partitions)
        if unknown:
            return None
        watches: list[RecordsWatch] = []
        with ExitStack() as stack:
            for peer, led in leaders.values():
                watch = await peer.calls.watch(group_id, led)
                if watch is None:
                    return None
                stack.callback(watch.end)
                watches.append(watch)
            stack.pop_all()
        return watches[0] if len(watches) == 1 else JointWatch(watches) if watches else None

    async def by_leader(
        self, parts: Iterable[A], routes: Routes | None = None
    ) -> tuple[list[tuple[LeaderPeer, list[A]]], list[A]]:
        """Parts by leader, and the parts without one. Binds missing `routes`."""
        parts = list(parts)
        groups, unknown = await self._by_known_leader(parts, routes)
        if unknown:
            await gather_in_portions(self._look_up, unknown)
            groups, unknown = await self._by_known_leader(parts, routes)
        return list(groups.values()), unknown

    def forget(self, partition: TopicIdPartition, routes: Routes | None = None) -> None:
        """Looks up the leader again at the next request."""
        self._router.forget_leader(*partition)
        if routes is not None:
            routes.pop(partition, None)

    async def _by_known_leader(
        self, parts: Sequence[A], routes: Routes | None = None
    ) -> tuple[_Groups[A], list[A]]:
        """Parts by their cached leader, and the others.

        Other tasks have a turn after the search for the leaders of each _PORTION parts.
        """
        groups: _Groups[A] = {}
        unknown: list[A] = []
        for start in range(0, len(parts), _PORTION):
            if start:
                await asyncio.sleep(0)
            self._add_known(parts[start : start + _PORTION], routes, groups, unknown)
        return groups, unknown

    def _add_known(
        self, parts: Sequence[A], routes: Routes | None, groups: _Groups[A], unknown: list[A]
    ) -> None:
        """Adds parts to those of their leader in `groups`, or to `unknown`."""
        for part in parts:
            key = TopicIdPartition(part.topic_id, part.partition)
            peer = None if routes is None else routes.get(key)
            if peer is None:
                peer = self._router.known_leader(*key)
                if peer is None:
                    unknown.append(part)
                    continue
                if routes is not None:
                    routes[key] = peer
            group = groups.get(peer.member.owner)
            if group is None:
                groups[peer.member.owner] = (peer, [part])
            else:
                group[1].append(part)

    async def _look_up(self, part: PartRequest) -> None:
        with suppress(KafkaError):  # the part stays without a leader
            await self._router.leader(part.topic_id, part.partition)

    async def _each(
        self,
        parts: Sequence[A],
        send: _SendTo[A, R],
        make: Callable[..., R],
        deadline: Deadline,
        routes: Routes | None = None,
    ) -> list[R]:
        """Sends the parts, and again those that moved, until the deadline."""
        pending = parts = list(parts)  # results are found by the identity of their parts
        results: dict[int, R] = {}
        backoff: Backoff | None = None
        while pending:
            groups, unled = await self.by_leader(pending, routes)
            if len(groups) == 1:  # the usual case, without a task and with one stack frame less
                ((peer, sent),) = groups
                try:
                    replies = [list(await send(peer, sent, deadline.remaining()))]
                except KafkaError as error:
                    replies = [self._failed(peer, sent, make, error, routes)]
            else:
                replies = await asyncio.gather(
                    *(self._send(peer, sent, send, make, deadline, routes) for peer, sent in groups)
                )
            for (_, sent), received in zip(groups, replies, strict=True):
                results.update((id(part), result) for part, result in zip(sent, received, strict=True))
            for part in unled:
                results[id(part)] = failed(make, part, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
            pending = [part for part in pending if results[id(part)].error_code in MOVED_PARTITION]
            for part in pending:
                self.forget(TopicIdPartition(part.topic_id, part.partition), routes)
            if pending:
                backoff = backoff or Backoff(deadline)
                if not await backoff.pause():
                    break
        return [results[id(part)] for part in parts]

    async def _send(
        self,
        peer: LeaderPeer,
        parts: list[A],
        send: _SendTo[A, R],
        make: Callable[..., R],
        deadline: Deadline,
        routes: Routes | None,
    ) -> list[R]:
        try:
            return list(await send(peer, parts, deadline.remaining()))
        except KafkaError as error:
            return self._failed(peer, parts, make, error, routes)

    def _failed(
        self,
        peer: LeaderPeer,
        parts: list[A],
        make: Callable[..., R],
        error: KafkaError,
        routes: Routes | None,
    ) -> list[R]:
        unbind(routes, parts)
        if NOT_SENT in error.metadata:
            error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, error.message)
        elif error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            error = unreachable(peer)
        return [failed(make, part, error) for part in parts]


def unbind(routes: Routes | None, parts: Iterable[PartRequest]) -> None:
    """Drops the routes of parts whose leader failed."""
    if routes:
        for part in parts:
            routes.pop(TopicIdPartition(part.topic_id, part.partition), None)


def moved(result: PartResult) -> bool:
    """Whether another process leads the partition, or none does yet."""
    return result.error_code in MOVED_PARTITION


def unreachable(peer: LeaderPeer) -> KafkaError:
    """The error of a call with unknown outcome: its leader failed after the request was sent."""
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"The leader at {peer.member.address} did not respond; it may or may not have applied the request.",
    )


def error_of(result: PartResult) -> KafkaError:
    """The error of a part that failed, with its partition as metadata."""
    return KafkaError(
        result.error_code,
        result.error_message,
        metadata={"topic_id": result.topic_id, "partition": str(result.partition)},
    )


def failed(make: Callable[..., R], part: PartRequest, error: KafkaError) -> R:
    """The result of a part that failed."""
    return make(
        topic_id=part.topic_id,
        partition=part.partition,
        error_code=error.code,
        error_message=error.message,
    )
