"""A heartbeat from beginning to end: decided, then share state initialised, then decided again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.core.commands import LEAVE, Heartbeat, HeartbeatReply, Reply, Stay
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.group_coordinator.service.share_states import ShareStates
from sharebroker_server.group_coordinator.service.shielded import to_the_end


class Membership:
    """`wait` in seconds: how long a heartbeat waits for share state it needs. `departed` is called with group
    id and member id of members that left.
    """

    def __init__(
        self, shards: Shards, states: ShareStates, departed: Callable[[str, str], None], wait: float
    ) -> None:
        self._shards = shards
        self._states = states
        self._departed = departed
        self._wait = wait

    def stays(self, member: Stay) -> bool:
        """Keeps the session of a member alive for which nothing else is to be done; False: let it `beat`."""
        try:
            return self._shards.at_once(member, member.group_id) is True
        except KafkaError:
            return False

    async def beat(self, heartbeat: Heartbeat) -> HeartbeatReply:
        """The answer to a heartbeat. Raises KafkaError.

        Better than Kafka, where a member is told of initialised state an interval later: the answer waits
        for state that is being initialised, and has the partitions.
        """
        reply = await self._decided(heartbeat)
        if heartbeat.member_epoch == LEAVE:
            self._departed(heartbeat.group_id, heartbeat.member_id)
        elif reply.pending and self._states.busy(heartbeat.group_id):
            await self._states.settled(heartbeat.group_id, self._wait)
            again = await self._decided(_repeated(heartbeat, reply))
            return again if again.assignment is not None else replace(again, assignment=reply.assignment)
        return reply

    async def _decided(self, heartbeat: Heartbeat) -> HeartbeatReply:
        deciding = self._shards.submit(heartbeat, heartbeat.group_id)
        if deciding.done():  # nothing was written, as for most heartbeats
            return self._begun(deciding.result())
        # A caller that goes away must not leave state behind that nobody initialises.
        return await to_the_end(self._written(deciding))

    async def _written(self, deciding: Awaitable[Reply]) -> HeartbeatReply:
        return self._begun(await deciding)

    def _begun(self, reply: Reply) -> HeartbeatReply:
        if not isinstance(reply, HeartbeatReply):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"A heartbeat was answered with {reply!r}.")
        if reply.initialize is not None:
            self._states.begin(reply.initialize)
        return reply


def _repeated(heartbeat: Heartbeat, reply: HeartbeatReply) -> Heartbeat:
    """The same heartbeat as its member would send it next; one that joins may join again."""
    if heartbeat.member_epoch == 0:
        return heartbeat
    return replace(heartbeat, member_epoch=reply.member_epoch, topics=None)
