"""A shard with consumer groups; members have the names that a test gives them."""

from __future__ import annotations

from itertools import count

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitOffsets,
    Committed,
    ConsumerHeartbeat,
    ConsumersDescription,
    Deferred,
    DeferredResult,
    DescribeConsumers,
    FetchOffsets,
    GroupOffsets,
    Join,
    Joined,
    Leave,
    Leaver,
    MemberIdentity,
    Sync,
    Synced,
)
from tests.unit.group_coordinator.harness import FakeView, Harness

AT = TopicIdPartition("id-a", 0)
SESSION, REBALANCE = 10.0, 60.0


class ConsumerHarness(Harness):
    """The requests of members; `replies` holds the unread replies by ticket."""

    def __init__(self, *settings: str) -> None:
        cluster = FakeView(*settings)
        cluster.create("a", 4)
        super().__init__(cluster)
        self._tickets = count(1)

    def join(  # type: ignore[override]  # consumers join in another way
        self, member: str = "", *protocols: str, fresh: str = "", instance: str | None = None, **more: object
    ) -> int:
        """Returns the ticket; an immediate reply is stored under it, like a deferred one."""
        ticket = next(self._tickets)
        known = tuple((name, f"{name} of {member or fresh}".encode()) for name in protocols or ("range",))
        fields: dict[str, object] = {
            "group_id": "g",
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "protocol_type": "consumer",
            "protocols": known,
            "instance_id": instance,
            **more,
        }
        reply = self.request(Join(member_id=member, fresh_id=fresh, reply_id=ticket, **fields), object)  # type: ignore[arg-type, type-var]
        return self._under(ticket, reply)

    def sync(self, member: str, generation: int, instance: str | None = None, **parts: str) -> int:
        """Returns the ticket; a leader sends the assignment of every member."""
        ticket = next(self._tickets)
        given = {name: part.encode() for name, part in parts.items()}
        identity = MemberIdentity("g", generation, member, instance)
        return self._under(ticket, self.request(Sync(identity, given, ticket), object))  # type: ignore[type-var]

    def stay(self, member: str, generation: int, instance: str | None = None) -> None:  # type: ignore[override]
        self.send(ConsumerHeartbeat(MemberIdentity("g", generation, member, instance)))

    def leave(self, *leavers: Leaver) -> list[ErrorCode | None]:
        return [error and error.code for error in self.request(Leave("g", leavers), tuple)]

    def commit(self, offset: int, member: str = "", generation: int = -1, metadata: str = "") -> None:
        self.send(
            CommitOffsets(MemberIdentity("g", generation, member), {AT: Committed(offset, 0, metadata)})
        )

    def committed(self, group: str = "g") -> dict[TopicIdPartition, int]:
        found = self.request(FetchOffsets(group), GroupOffsets).committed
        return {some: kept.offset for some, kept in found.items()}

    def described(self) -> ConsumersDescription:
        return self.request(DescribeConsumers("g"), ConsumersDescription)

    def joined(self, ticket: int) -> Joined:
        response = self.replies.pop(ticket)
        assert isinstance(response, Joined), response
        return response

    def synced(self, ticket: int) -> str:
        response = self.replies.pop(ticket)
        assert isinstance(response, Synced), response
        return response.assignment.decode()

    def refused(self, ticket: int) -> ErrorCode:
        response = self.replies.pop(ticket)
        assert isinstance(response, KafkaError), response
        return response.code

    def waits(self, ticket: int) -> bool:
        return ticket not in self.replies

    def stable(self, *members: str) -> int:
        """Joins these new members into a stable group and returns its generation. The first one leads."""
        tickets = {name: self.join("", fresh=name) for name in members}
        places = {name: self.joined(ticket) for name, ticket in tickets.items() if not self.waits(ticket)}
        for name in places:  # a member that was alone before the others arrived joins again with them
            tickets[name] = self.join(name)
        generation = max(self.joined(ticket).generation for ticket in tickets.values())
        parts = {name: f"part of {name}" for name in members}
        syncs = {name: self.sync(name, generation) for name in members[1:]}
        syncs[members[0]] = self.sync(members[0], generation, **parts)
        assert {name: self.synced(ticket) for name, ticket in syncs.items()} == parts
        return generation

    def _under(self, ticket: int, reply: object) -> int:
        if not isinstance(reply, Deferred):
            assert isinstance(reply, Joined | Synced)
            response: DeferredResult = reply
            self.replies[ticket] = response
        return ticket
