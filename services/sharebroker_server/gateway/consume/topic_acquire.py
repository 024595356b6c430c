"""Acquiring from topics for members without a membership, whatever partition has records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquireMode, TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.consume.state_initializer import Initialisation
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.share.multi_leader_fetch import MemberFetch
from sharebroker_server.share_calls.values import AcquireCall, Acquisition

_PATIENCE: Final = 1.0
NO_STATE: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""The state may be gone; any other error says nothing about it."""

Wish = Sequence[tuple[Topic, Sequence[int]]]
"""Topics, and those of their partitions that are asked; none: all."""


class Wanted(NamedTuple):
    """At most how many records, and how long to wait for a first one (seconds)."""

    max_records: int
    max_wait: float
    without_records: bool = False


class TopicAcquire:
    """Acquires for a member from any partition of topics."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._initialisation = Initialisation(gateway)
        self._turn = count()

    async def acquire(
        self, key: SessionKey, topics: Wish, wanted: Wanted, deadline: Deadline
    ) -> Mapping[TopicIdPartition, Acquisition]:
        """Answers with records. Where the state may be gone it is made once more. Raises KafkaError.

        The leaders are asked before they are waited for: who waits hears of a refusal only at the end.
        """
        wait = Deadline(min(wanted.max_wait, deadline.left()))
        backoff = Backoff(Deadline(min(wait.left() + _PATIENCE, deadline.left())))
        waits = 0.0
        while True:
            await self.ensure(key.group_id, topics, deadline)
            call = AcquireCall(
                *key,
                self._in_turn(topics),
                waits,
                wanted.max_records,
                mode=AcquireMode.RECORD_LIMIT,
                without_records=wanted.without_records,
            )
            answers = await MemberFetch(self._gateway.leaders, call).run()
            acquired = {part: answer for part, answer in answers.items() if answer.acquired}
            errors = _errors(answers)
            left = max(wait.left(), 0.0)
            if acquired or not (errors or left):
                return acquired
            waits = 0.0 if errors else left
            if errors:
                await self.after(errors, key.group_id, backoff)

    async def ensure(self, group_id: str, topics: Wish, deadline: Deadline) -> None:
        """Have the group's state of the topics made. Raises KafkaError."""
        await asyncio.gather(*(self._initialisation.ensure(group_id, t, deadline) for t, _ in topics))

    async def after(self, errors: Sequence[KafkaError], group_id: str, backoff: Backoff) -> None:
        """Prepare to try again. Raises the first error where that is of no use."""
        for error in errors:
            if error.code in NO_STATE:
                self._initialisation.forget(group_id, error.metadata["topic_id"])
        if not errors[0].retriable or not await backoff.pause():
            raise errors[0]

    def _in_turn(self, topics: Wish) -> list[TopicIdPartition]:
        """Every partition that is asked, another one first at each call."""
        parts = parts_of(topics)
        start = next(self._turn) % len(parts)
        return parts[start:] + parts[:start]


def parts_of(topics: Wish) -> list[TopicIdPartition]:
    """The partitions that are asked."""
    return [
        TopicIdPartition(topic.topic_id, index)
        for topic, asked in topics
        for index in (asked or range(topic.partitions))
    ]


def _errors(answers: Mapping[TopicIdPartition, Acquisition]) -> list[KafkaError]:
    return [
        KafkaError(
            ErrorCode(answer.error_code),
            answer.error_message,
            metadata={"topic_id": part.topic_id, "partition": str(part.partition)},
        )
        for part, answer in answers.items()
        if answer.error_code
    ]
