"""Initialises share state of a topic for a group whose members send no heartbeats.

A temporary member joins the group, which makes the coordinator initialise the state. It leaves as soon as it
is assigned a partition, which happens once the state exists. See services/decisions/0017.
"""

from __future__ import annotations

import asyncio
from uuid import uuid4

from sharebroker_protocol.membership.machine import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatRequest
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.consume.membership import Identity, heartbeat
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.values import SessionKey

_CACHED_TOPICS = 10_000


class StateInitializer:
    """Caches, per group and topic, the number of partitions with initialised state."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._done: dict[tuple[str, str], int] = {}
        self._running: dict[tuple[str, str], asyncio.Task[bool]] = {}

    async def ensure(self, group_id: str, topic: Topic, deadline: Deadline) -> None:
        """Returns when the state exists, or at the deadline. Raises KafkaError."""
        key = (group_id, topic.topic_id)
        if self._done.get(key) == topic.partitions:
            return
        if key not in self._running:
            # The task has its own deadline: callers with a later one may wait for it too.
            task = self._gateway.begin(self._initialise(group_id, topic, Deadline(REQUEST_TIMEOUT)))
            self._running[key] = task
            task.add_done_callback(lambda done: self._ended(key, topic.partitions, done))
        running = self._running[key]
        await asyncio.wait([running], timeout=deadline.remaining())
        if running.done():
            running.result()

    def _ended(self, key: tuple[str, str], partitions: int, done: asyncio.Task[bool]) -> None:
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

    async def _initialise(self, group_id: str, topic: Topic, deadline: Deadline) -> bool:
        identity = Identity(SessionKey(group_id, f"gw-{uuid4().hex}"), client_id="acquire")
        coordinators, backoff = self._gateway.coordinators, Backoff(deadline)
        request = HeartbeatRequest(JOIN_EPOCH, topics=frozenset({topic.name}))
        try:
            while True:
                response = await heartbeat(coordinators, identity, request, max(deadline.remaining(), 0.1))
                if any(part.topic_id == topic.topic_id for part in response.assignment or ()):
                    return True
                if not await backoff.pause():
                    return False
                request = HeartbeatRequest(response.member_epoch)
        finally:
            self._gateway.background(self._leave(identity), "state initializer leave failed")

    async def _leave(self, identity: Identity) -> None:
        await heartbeat(self._gateway.coordinators, identity, HeartbeatRequest(LEAVE_EPOCH), 5.0)
