"""Makes sure that share state of a topic exists for a group whose callers send no heartbeats.

A member joins, which makes the coordinator initialise the state, and leaves as soon as it is assigned a
partition, which it is only when the state exists. See services/decisions/0017.
"""

from __future__ import annotations

import asyncio
from uuid import uuid4

from sharebroker_protocol.membership.heartbeat import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatRequest
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.consume.membership import Identity, heartbeat
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.values import SessionKey

_REMEMBERED = 10_000


class Initialisation:
    """Remembers for which groups and topics it was done, with how many partitions."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._done: dict[tuple[str, str], int] = {}
        self._running: dict[tuple[str, str], asyncio.Task[bool]] = {}

    async def ensure(self, group_id: str, topic: Topic, deadline: Deadline) -> None:
        """Returns when the state exists, or at the deadline. Raises KafkaError."""
        known = (group_id, topic.topic_id)
        if self._done.get(known) == topic.partitions:
            return
        if known not in self._running:
            # It has time of its own: others, with more of it, may wait for it too.
            task = self._gateway.begin(self._initialise(group_id, topic, Deadline(REQUEST_TIMEOUT)))
            self._running[known] = task
            task.add_done_callback(lambda done: self._ended(known, topic.partitions, done))
        running = self._running[known]
        await asyncio.wait([running], timeout=deadline.left())
        if running.done():
            running.result()

    def _ended(self, known: tuple[str, str], partitions: int, done: asyncio.Task[bool]) -> None:
        # In one step: who comes between the end and those who waited for it must not begin once more.
        del self._running[known]
        if done.cancelled() or done.exception() is not None or not done.result():
            return  # those who waited have the error, if any did to the end
        if len(self._done) >= _REMEMBERED:
            self._done.clear()
        self._done[known] = partitions

    def forget(self, group_id: str, topic_id: str) -> None:
        """The state may have been deleted since."""
        self._done.pop((group_id, topic_id), None)

    async def _initialise(self, group_id: str, topic: Topic, deadline: Deadline) -> bool:
        identity = Identity(SessionKey(group_id, f"gw-{uuid4().hex}"), client_id="acquire")
        coordinators, backoff = self._gateway.coordinators, Backoff(deadline)
        request = HeartbeatRequest(JOIN_EPOCH, topics=frozenset({topic.name}))
        try:
            while True:
                answer = await heartbeat(coordinators, identity, request, max(deadline.left(), 0.1))
                if any(part.topic_id == topic.topic_id for part in answer.assignment or ()):
                    return True
                if not await backoff.pause():
                    return False
                request = HeartbeatRequest(answer.member_epoch)
        finally:
            self._gateway.background(self._leave(identity), "could not leave a group after initialising")

    async def _leave(self, identity: Identity) -> None:
        await heartbeat(self._gateway.coordinators, identity, HeartbeatRequest(LEAVE_EPOCH), 5.0)
