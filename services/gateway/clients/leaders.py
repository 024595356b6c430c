"""Calls to share-partition leaders: split by who leads what, repeated where a partition moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from libs.rpc.in_band import refusal
from libs.rpc.remote import NOT_SENT
from libs.rpc.router import Peer, Router
from services.gateway.clients.deadline import Backoff, Deadline
from services.gateway.core.values import TopicPartition
from sharebroker.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from sharebroker.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
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


_FEW: Final = 16


class Asked(Protocol):
    """The part of a request that is about one partition."""

    topic_id: str
    partition: int


class Answered(Protocol):
    """The part of an answer that is about one partition."""

    topic_id: str
    partition: int
    error_code: Any
    error_message: str


A = TypeVar("A", bound=Asked)
R = TypeVar("R", bound=Answered)
Send = Callable[["Stub", list[A], float], Awaitable[Iterable[R]]]
"""Sends parts of a request to one leader, with the seconds left; the answers come in the same order."""


class Leaders:
    """Each part of a request goes to its partition's leader, in one call for each leader."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def each(
        self, asked: Sequence[A], send: Send[A, R], answer: Callable[..., R], deadline: Deadline
    ) -> list[R]:
        """The answer for each part, in order; `answer` makes one for a part that could not be asked."""
        answers: dict[int, R] = {}
        pending = list(enumerate(asked))
        backoff = Backoff(deadline)
        while pending:
            answers.update(await self._round(pending, send, answer, deadline))
            pending = [(index, part) for index, part in pending if moved(answers[index])]
            for _, part in pending:
                self._router.forget_leader(part.topic_id, part.partition)
            if pending and not await backoff.pause():
                break
        return [answers[index] for index in range(len(asked))]

    async def by_leader(self, parts: Iterable[A]) -> tuple[list[tuple[Peer[Stub], list[A]]], list[A]]:
        """Parts by the process that leads them, and those that nobody can lead at the moment."""
        parts = list(parts)
        if (
            len(parts) > _FEW
        ):  # side by side, for owners that are not known yet; known ones are faster in turn
            found = await asyncio.gather(*map(self._peer, parts))
        else:
            found = [await self._peer(part) for part in parts]
        peers: dict[str, tuple[Peer[Stub], list[A]]] = {}
        for part, peer in zip(parts, found, strict=True):
            if peer is not None:
                peers.setdefault(peer.member.owner, (peer, []))[1].append(part)
        return list(peers.values()), [part for part, peer in zip(parts, found, strict=True) if peer is None]

    def forget(self, partition: TopicPartition) -> None:
        """Look the leader up anew."""
        self._router.forget_leader(*partition)

    async def _peer(self, part: Asked) -> Peer[Stub] | None:
        try:
            return await self._router.leader(part.topic_id, part.partition)
        except KafkaError:
            return None

    async def _round(
        self, pending: list[tuple[int, A]], send: Send[A, R], answer: Callable[..., R], deadline: Deadline
    ) -> dict[int, R]:
        numbered = {id(part): index for index, part in pending}
        peers, lost = await self.by_leader(part for _, part in pending)
        nobody = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        answers = {numbered[id(part)]: failed(answer, part, nobody) for part in lost}
        sent = [self._ask(peer, parts, send, answer, deadline) for peer, parts in peers]
        for (_, parts), results in zip(peers, await asyncio.gather(*sent), strict=True):
            answers |= {numbered[id(part)]: result for part, result in zip(parts, results, strict=True)}
        return answers

    async def _ask(
        self, peer: Peer[Stub], parts: list[A], send: Send[A, R], answer: Callable[..., R], deadline: Deadline
    ) -> list[R]:
        try:
            return list(await send(peer.stub, parts, deadline.left()))
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
