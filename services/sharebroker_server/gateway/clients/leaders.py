"""Calls to share-partition leaders: split by who leads what, repeated where a partition moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.cluster.router import Peer, Router
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.rpc.partition_errors import refusal
from sharebroker_server.rpc.remote import NOT_SENT
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AckPart,
    SettleCall,
    Settlement,
    SettlePart,
    ShareCalls,
    Watch,
)
from sharebroker_server.share_calls.watches import JointWatch

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

MOVED_PARTITION: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
"""The partition's leader changes: asking the new one helps."""


class Asked(Protocol):
    """The part of a request that is about one partition."""

    @property
    def topic_id(self) -> str: ...  # noqa: D102 - as in the protos
    @property
    def partition(self) -> int: ...  # noqa: D102 - as in the protos


class Answered(Protocol):
    """The part of an answer that is about one partition."""

    @property
    def topic_id(self) -> str: ...  # noqa: D102 - as in the protos
    @property
    def partition(self) -> int: ...  # noqa: D102 - as in the protos
    @property
    def error_code(self) -> Any: ...  # noqa: D102 - as in the protos
    @property
    def error_message(self) -> str: ...  # noqa: D102 - as in the protos


A = TypeVar("A", bound=Asked)
R = TypeVar("R", bound=Answered)
Send = Callable[["Stub", list[A], float], Awaitable[Iterable[R]]]
"""Sends parts of a request to one leader, with the seconds left; the answers come in the same order."""

_SendTo = Callable[["Peer[Stub]", list[A], float], Awaitable[Iterable[R]]]


class Leaders:
    """Each part of a request goes to its partition's leader, in one call for each leader."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def each(
        self, asked: Sequence[A], send: Send[A, R], answer: Callable[..., R], deadline: Deadline
    ) -> list[R]:
        """The answer for each part, in order; `answer` makes one for a part that could not be asked."""

        async def send_to(peer: Peer[Stub], parts: list[A], left: float) -> Iterable[R]:
            return await send(peer.stub, parts, left)

        return await self._each(asked, send_to, answer, deadline)

    async def _each(
        self, asked: Sequence[A], send: _SendTo[A, R], answer: Callable[..., R], deadline: Deadline
    ) -> list[R]:
        answers = await self._round(asked, send, answer, deadline)
        backoff = Backoff(deadline)
        while again := [index for index, one in enumerate(answers) if moved(one)]:
            parts = [asked[index] for index in again]
            for part in parts:
                self._router.forget_leader(part.topic_id, part.partition)
            if not await backoff.pause():
                break
            for index, one in zip(again, await self._round(parts, send, answer, deadline), strict=True):
                answers[index] = one
        return answers

    async def acknowledge(self, call: AcknowledgeCall, deadline: Deadline) -> list[Acknowledged]:
        """What became of each part of a call, in order."""

        async def send(peer: Peer[Stub], parts: list[AckPart], left: float) -> Iterable[Acknowledged]:
            return await self._router.share_calls(peer).acknowledge(call._replace(parts=parts), left)

        return await self._each(call.parts, send, Acknowledged, deadline)

    async def settle(self, call: SettleCall, timeout: float) -> list[Settlement]:
        """What became of each part of a call, in order. Asked once: who repeats it has to say so."""

        async def send(peer: Peer[Stub], parts: list[SettlePart], _: float) -> Iterable[Settlement]:
            return await self._router.share_calls(peer).settle(call._replace(parts=parts), timeout)

        return await self._each(call.parts, send, Settlement, Deadline(0))

    def share_calls(self, peer: Peer[Stub]) -> ShareCalls:
        """How to fetch from a leader."""
        return self._router.share_calls(peer)

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> Watch | None:
        """A watch by partitions without records; None where somebody has some, or leads what nobody knows."""
        leaders: dict[str, tuple[Peer[Stub], list[TopicIdPartition]]] = {}
        for partition in partitions:
            peer = self._router.known_leader(*partition)
            if peer is None:
                return None
            leaders.setdefault(peer.member.owner, (peer, []))[1].append(partition)
        watches: list[Watch] = []
        for peer, some in leaders.values():
            watch = self._router.share_calls(peer).watch(group_id, some)
            if watch is None:
                for other in watches:
                    other.end()
                return None
            watches.append(watch)
        return watches[0] if len(watches) == 1 else JointWatch(watches) if watches else None

    async def by_leader(self, parts: Iterable[A]) -> tuple[list[tuple[Peer[Stub], list[A]]], list[A]]:
        """Parts by the process that leads them, and those that nobody can lead at the moment."""
        peers: dict[str, tuple[Peer[Stub], list[A]]] = {}
        lost = []
        parts = list(parts)
        for part, peer in zip(parts, await self._peers(parts), strict=True):
            if peer is None:
                lost.append(part)
            elif (found := peers.get(peer.member.owner)) is not None:
                found[1].append(part)
            else:
                peers[peer.member.owner] = (peer, [part])
        return list(peers.values()), lost

    def forget(self, partition: TopicIdPartition) -> None:
        """Look the leader up anew."""
        self._router.forget_leader(*partition)

    async def _peers(self, parts: Sequence[Asked]) -> list[Peer[Stub] | None]:
        found = [self._router.known_leader(part.topic_id, part.partition) for part in parts]
        unknown = [index for index, peer in enumerate(found) if peer is None]
        if unknown:
            looked_up = await asyncio.gather(*(self._peer(parts[index]) for index in unknown))
            for index, peer in zip(unknown, looked_up, strict=True):
                found[index] = peer
        return found

    async def _peer(self, part: Asked) -> Peer[Stub] | None:
        try:
            return await self._router.leader(part.topic_id, part.partition)
        except KafkaError:
            return None

    async def _round(
        self, asked: Sequence[A], send: _SendTo[A, R], answer: Callable[..., R], deadline: Deadline
    ) -> list[R]:
        peers, lost = await self.by_leader(asked)
        if len(peers) == 1 and not lost:
            return await self._ask(*peers[0], send, answer, deadline)
        nobody = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        answers = {id(part): failed(answer, part, nobody) for part in lost}
        sent = (self._ask(peer, parts, send, answer, deadline) for peer, parts in peers)
        for (_, parts), results in zip(peers, await asyncio.gather(*sent), strict=True):
            answers.update((id(part), result) for part, result in zip(parts, results, strict=True))
        return [answers[id(part)] for part in asked]

    async def _ask(
        self,
        peer: Peer[Stub],
        parts: list[A],
        send: _SendTo[A, R],
        answer: Callable[..., R],
        deadline: Deadline,
    ) -> list[R]:
        try:
            return list(await send(peer, parts, deadline.left()))
        except KafkaError as error:
            if NOT_SENT in error.metadata:
                error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, error.message)
            elif error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                error = unreachable(peer)
            return [failed(answer, part, error) for part in parts]


def moved(answer: Answered) -> bool:
    """Whether the partition is led elsewhere, or by nobody yet."""
    return answer.error_code in MOVED_PARTITION


def unreachable(peer: Peer[Any]) -> KafkaError:
    """What a call comes to whose leader went away; what was asked may or may not have happened."""
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"The leader at {peer.member.address} did not answer; it may or may not have done what was asked.",
    )


def failed(answer: Callable[..., R], part: Asked, error: KafkaError) -> R:
    """An answer that is an error alone."""
    return answer(
        topic_id=part.topic_id,
        partition=part.partition,
        **refusal(error),
    )
