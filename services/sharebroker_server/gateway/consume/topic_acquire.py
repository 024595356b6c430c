"""Acquires from topics for members without a membership, from any partition that has records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquireMode, TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.clients.leaders import error_of
from sharebroker_server.gateway.consume.state_initializer import StateInitializer
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.share.multi_leader_fetch import MultiLeaderFetch
from sharebroker_server.leader_calls.values import AcquireCall, AcquireResult

_RETRY_SECONDS: Final = 1.0
"""Seconds beyond its wait for which an acquisition is retried."""

NO_STATE: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors after which the share state may have to be initialised again."""

TopicFilter = Sequence[tuple[Topic, Sequence[int]]]
"""Topics, each with the partitions to use; none means all."""


class AcquireLimits(NamedTuple):
    """The largest number of records, and the longest wait for the first one (seconds)."""

    max_records: int
    max_wait: float
    without_records: bool = False


class TopicAcquire:
    """Acquires for a member from any partition of topics."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._initializer = StateInitializer(gateway)
        self._turn = count()

    async def acquire(
        self, key: SessionKey, topics: TopicFilter, limits: AcquireLimits, deadline: Deadline
    ) -> Mapping[TopicIdPartition, AcquireResult]:
        """The results with records. Initialises the state again if it may be missing. Raises KafkaError.

        The first fetch does not wait: a leader with an error would return it only at the end of the wait.
        """
        wait = Deadline(min(limits.max_wait, deadline.remaining()))
        backoff = Backoff(Deadline(min(wait.remaining() + _RETRY_SECONDS, deadline.remaining())))
        max_wait = 0.0
        while True:
            await self.ensure(key.group_id, topics, deadline)
            call = AcquireCall(
                *key,
                self._in_turn(topics),
                max_wait,
                limits.max_records,
                mode=AcquireMode.RECORD_LIMIT,
                without_records=limits.without_records,
            )
            results = await MultiLeaderFetch(self._gateway.leaders, call).run()
            acquired = {part: result for part, result in results.items() if result.acquired}
            errors = [error_of(result) for result in results.values() if result.error_code]
            remaining = wait.remaining()
            if acquired or not (errors or remaining):
                return acquired
            max_wait = 0.0 if errors else remaining
            if errors:
                await self.prepare_retry(errors, key.group_id, backoff)

    async def ensure(self, group_id: str, topics: TopicFilter, deadline: Deadline) -> None:
        """Has the group's state of the topics initialised. Raises KafkaError."""
        await asyncio.gather(*(self._initializer.ensure(group_id, t, deadline) for t, _ in topics))

    async def prepare_retry(self, errors: Sequence[KafkaError], group_id: str, backoff: Backoff) -> None:
        """Waits before a retry. Raises the first error if a retry cannot help, or at the deadline."""
        for error in errors:
            if error.code in NO_STATE:
                self._initializer.forget(group_id, error.metadata["topic_id"])
        if not errors[0].retriable or not await backoff.pause():
            raise errors[0]

    def _in_turn(self, topics: TopicFilter) -> list[TopicIdPartition]:
        """All partitions of the filter, beginning with another one at each call."""
        parts = parts_of(topics)
        start = next(self._turn) % len(parts)
        return parts[start:] + parts[:start]


def parts_of(topics: TopicFilter) -> list[TopicIdPartition]:
    """The partitions of the filter."""
    return [
        TopicIdPartition(topic.topic_id, index)
        for topic, partitions in topics
        for index in (partitions or range(topic.partitions))
    ]
