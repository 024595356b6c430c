"""Acquires from topics for members without a membership, from any partition that has records.

`StateInitializer` initialises the share state of topics for a group whose members send no heartbeats: a
temporary member joins the group, which makes the coordinator initialise the state. It leaves as soon as it
was assigned a partition of each topic, which happens once the state exists. See services/decisions/0017.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.membership import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatRequest
from sharebroker_protocol.model import AcquireMode, TopicIdPartition
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT, Backoff, error_of
from sharebroker_server.gateway.consume.membership import ShareMemberIdentity, heartbeat, temporary_member
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.share.fetch import MultiLeaderFetch
from sharebroker_server.leader_calls.values import AcquireCall, AcquireResult

_RETRY_SECONDS: Final = 1.0
"""Seconds beyond its wait for which an acquisition is retried."""

MAX_ACQUIRE_BYTES: Final = 3 << 20
"""Bytes of record batches after which no further partition is read; with the last batch a response is smaller
than the 4 MiB that gRPC clients accept, unless the batches are compressed."""

NO_STATE: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors after which the share state may have to be initialised again."""

TopicFilter = Sequence[tuple[Topic, Sequence[int]]]
"""Topics, each with the partitions to use; none means all."""


class AcquireLimits(NamedTuple):
    """The largest number of records, and the longest wait for the first one (seconds).

    `lock` is the length of the locks in seconds; 0: the group's.
    """

    max_records: int
    max_wait: float
    without_records: bool = False
    lock: float = 0.0


class TopicAcquire:
    """Acquires for a member from any partition of topics."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._initializer = StateInitializer(gateway)
        self._turn = 0

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
                key.group_id,
                key.member_id,
                self._in_turn(topics),
                max_wait,
                limits.max_records,
                max_bytes=0 if limits.without_records else MAX_ACQUIRE_BYTES,
                mode=AcquireMode.RECORD_LIMIT,
                without_records=limits.without_records,
                principal=key.principal,
                lock=limits.lock,
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
        await self._initializer.ensure(group_id, [topic for topic, _ in topics], deadline)

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
        start = self._turn % len(parts)
        self._turn += 1
        return parts[start:] + parts[:start]


def parts_of(topics: TopicFilter) -> list[TopicIdPartition]:
    """The partitions of the filter."""
    return [
        TopicIdPartition(topic.topic_id, index)
        for topic, partitions in topics
        for index in (partitions or range(topic.partitions))
    ]


TOPICS_OF_A_MEMBER: Final = 100
"""Topics that one temporary member initialises.

A heartbeat per topic would cost the coordinator an assignment of the whole group for each. A call with 1,000
topics adds 10 members to the group, which may have 200.
"""

_CACHED_TOPICS: Final = 10_000


class StateInitializer:
    """Caches, per group and topic, the number of partitions with initialised state."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._done: dict[tuple[str, str], int] = {}
        self._running: dict[tuple[str, str], asyncio.Future[bool]] = {}

    async def ensure(self, group_id: str, topics: Sequence[Topic], deadline: Deadline) -> None:
        """Returns when the state of all topics exists, or at the deadline. Raises KafkaError."""
        missing = {
            (group_id, topic.topic_id): topic
            for topic in topics
            if self._done.get((group_id, topic.topic_id)) != topic.partitions
        }
        new = [topic for key, topic in missing.items() if key not in self._running]
        for start in range(0, len(new), TOPICS_OF_A_MEMBER):
            self._begin(group_id, new[start : start + TOPICS_OF_A_MEMBER])
        running = [self._running[key] for key in missing]
        if running:
            await asyncio.wait(running, timeout=deadline.remaining(), return_when=asyncio.FIRST_EXCEPTION)
        for one in running:
            if one.done():
                one.result()

    def _begin(self, group_id: str, topics: Sequence[Topic]) -> None:
        """Starts the initialisation of topics, each of which has its own result."""
        ready = {topic.topic_id: self._add(group_id, topic) for topic in topics}
        # The task has its own deadline: callers with a later one may wait for it too.
        work = self._initialise(group_id, topics, ready, Deadline(REQUEST_TIMEOUT))
        self._gateway.begin(work).add_done_callback(lambda task: _end(ready.values(), task))

    def _add(self, group_id: str, topic: Topic) -> asyncio.Future[bool]:
        """Adds a topic to those that are being initialised; returns its result."""
        key = (group_id, topic.topic_id)
        ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        ready.add_done_callback(lambda done: self._ended(key, topic.partitions, done))
        self._running[key] = ready
        return ready

    def _ended(self, key: tuple[str, str], partitions: int, done: asyncio.Future[bool]) -> None:
        # Both entries change in one step: a caller that arrives now must not start another task.
        del self._running[key]
        if done.cancelled() or done.exception() is not None or not done.result():
            return  # the callers that still wait receive the error
        if len(self._done) >= _CACHED_TOPICS:
            self._done.clear()
        self._done[key] = partitions

    def forget(self, group_id: str, topic_id: str) -> None:
        """Drops the cached entry: the state may have been deleted since."""
        self._done.pop((group_id, topic_id), None)

    async def _initialise(
        self,
        group_id: str,
        topics: Sequence[Topic],
        ready: Mapping[str, asyncio.Future[bool]],
        deadline: Deadline,
    ) -> None:
        """Sends heartbeats of a temporary member until each topic is `ready`, or until the deadline.

        The coordinator divides the partitions of equal subscriptions among the members. The member therefore
        unsubscribes from the topics that are ready: of those that remain it is then assigned others, and of
        the last one at least one partition.
        """
        identity = temporary_member(group_id)
        remaining = {topic.topic_id: topic.name for topic in topics}
        coordinators, backoff = self._gateway.coordinators, Backoff(deadline)
        request = HeartbeatRequest(JOIN_EPOCH, topics=frozenset(remaining.values()))
        try:
            while True:
                response = await heartbeat(coordinators, identity, request, max(deadline.remaining(), 0.1))
                found = remaining.keys() & {part.topic_id for part in response.assignment or ()}
                for topic_id in found:
                    del remaining[topic_id]
                    ready[topic_id].set_result(True)
                if not remaining:
                    return
                if found:
                    backoff = Backoff(deadline)
                if not await backoff.pause():
                    return
                subscription = frozenset(remaining.values()) if found else None
                request = HeartbeatRequest(response.member_epoch, topics=subscription)
        finally:
            self._gateway.background(self._leave(identity), "state initializer leave failed")

    async def _leave(self, identity: ShareMemberIdentity) -> None:
        await heartbeat(self._gateway.coordinators, identity, HeartbeatRequest(LEAVE_EPOCH), 5.0)


def _end(waiting: Iterable[asyncio.Future[bool]], task: asyncio.Task[None]) -> None:
    """Gives the topics that are not ready the error of their task, or False after its deadline."""
    error = None if task.cancelled() else task.exception()
    for one in waiting:
        if one.done():
            continue
        if task.cancelled():
            one.cancel()
        elif error is not None:
            one.set_exception(error)
        else:
            one.set_result(False)
