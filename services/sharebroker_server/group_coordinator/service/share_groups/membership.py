"""A share group heartbeat from request to response: decide, wait for share state, decide again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.core.commands import (
    LEAVE,
    Heartbeat,
    HeartbeatReply,
    Reply,
    UnchangedHeartbeat,
)
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.group_coordinator.service.share_groups.share_states import ShareStates
from sharebroker_server.group_coordinator.service.shielded import shielded

MemberLeft = Callable[[str, str], None]
"""Receives group id and member id: leaders release the records that the member holds."""


class Membership:
    """Serves heartbeats; `wait` bounds in seconds how long one waits for share state."""

    def __init__(self, shards: Shards, states: ShareStates, member_left: MemberLeft, wait: float) -> None:
        self._shards = shards
        self._states = states
        self._member_left = member_left
        self._wait = wait

    def extend_session(self, heartbeat: UnchangedHeartbeat) -> bool:
        """Extends the session of a member without changes; False if the caller must send a full heartbeat."""
        try:
            return self._shards.try_read(heartbeat, heartbeat.group_id) is True
        except KafkaError:
            return False

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatReply:
        """Returns the reply to a heartbeat. Raises KafkaError.

        Unlike Kafka, where a member receives partitions one interval after their state was initialised, the
        response waits for state that is being initialised and contains the partitions.
        """
        reply = await self._decided(heartbeat)
        if heartbeat.member_epoch == LEAVE:
            self._member_left(heartbeat.group_id, heartbeat.member_id)
        elif reply.pending and self._states.busy(heartbeat.group_id):
            await self._states.wait_until_idle(heartbeat.group_id, self._wait)
            second = await self._decided(_repeated(heartbeat, reply))
            return second if second.assignment is not None else replace(second, assignment=reply.assignment)
        return reply

    async def _decided(self, heartbeat: Heartbeat) -> HeartbeatReply:
        deciding = self._shards.submit(heartbeat, heartbeat.group_id)
        if deciding.done():  # no record was written, as for most heartbeats
            return self._begun(deciding.result())
        # If the caller is cancelled, the state that the decision recorded must be initialised nevertheless.
        return await shielded(self._written(deciding))

    async def _written(self, deciding: Awaitable[Reply]) -> HeartbeatReply:
        return self._begun(await deciding)

    def _begun(self, reply: Reply) -> HeartbeatReply:
        if not isinstance(reply, HeartbeatReply):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The reply to a heartbeat is {reply!r}.")
        if reply.initialize is not None:
            self._states.begin(reply.initialize)
        return reply


def _repeated(heartbeat: Heartbeat, reply: HeartbeatReply) -> Heartbeat:
    """Returns the member's next heartbeat without changes; a member that joins may join again."""
    if heartbeat.member_epoch == 0:
        return heartbeat
    return replace(heartbeat, member_epoch=reply.member_epoch, topics=None)
