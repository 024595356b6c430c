"""A shard whose groups are consumer groups; members are named by what they call themselves in the test."""

from __future__ import annotations

from itertools import count

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumers.commands import (
    Answered,
    CommitOffsets,
    Committed,
    ConsumersDescription,
    DescribeConsumers,
    FetchOffsets,
    Join,
    Joined,
    KeptOffsets,
    Leave,
    Leaver,
    MemberOf,
    Parked,
    StayMember,
    Sync,
    Synced,
)
from tests.unit.group_coordinator.world import Cluster, Shard

AT = TopicIdPartition("id-a", 0)
SESSION, REBALANCE = 10.0, 60.0


class Consumers(Shard):
    """What members ask, and what they hear; `told` are answers under tickets that nobody looked at yet."""

    def __init__(self, *settings: str) -> None:
        cluster = Cluster(*settings)
        cluster.create("a", 4)
        super().__init__(cluster)
        self._tickets = count(1)

    def join(  # type: ignore[override]  # consumers join in another way
        self, member: str = "", *protocols: str, fresh: str = "", instance: str | None = None, **more: object
    ) -> int:
        """The ticket; what is answered at once lies under it too."""
        ticket = next(self._tickets)
        known = tuple((name, f"{name} of {member or fresh}".encode()) for name in protocols or ("range",))
        asked: dict[str, object] = {
            "group_id": "g",
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "protocol_type": "consumer",
            "protocols": known,
            "instance_id": instance,
            **more,
        }
        reply = self.ask(Join(member_id=member, fresh_id=fresh, ticket=ticket, **asked), object)  # type: ignore[arg-type, type-var]
        return self._under(ticket, reply)

    def sync(self, member: str, generation: int, instance: str | None = None, **parts: str) -> int:
        """The ticket; a leader says everybody's part."""
        ticket = next(self._tickets)
        given = {name: part.encode() for name, part in parts.items()}
        who = MemberOf("g", generation, member, instance)
        return self._under(ticket, self.ask(Sync(who, given, ticket), object))  # type: ignore[type-var]

    def stay(self, member: str, generation: int, instance: str | None = None) -> None:  # type: ignore[override]
        self.tell(StayMember(MemberOf("g", generation, member, instance)))

    def leave(self, *leavers: Leaver) -> list[ErrorCode | None]:
        return [error and error.code for error in self.ask(Leave("g", leavers), tuple)]

    def commit(self, offset: int, member: str = "", generation: int = -1, metadata: str = "") -> None:
        self.tell(CommitOffsets(MemberOf("g", generation, member), {AT: Committed(offset, 0, metadata)}))

    def committed(self, group: str = "g") -> dict[TopicIdPartition, int]:
        found = self.ask(FetchOffsets(group), KeptOffsets).committed
        return {some: kept.offset for some, kept in found.items()}

    def described(self) -> ConsumersDescription:
        return self.ask(DescribeConsumers("g"), ConsumersDescription)

    def joined(self, ticket: int) -> Joined:
        answer = self.answers.pop(ticket)
        assert isinstance(answer, Joined), answer
        return answer

    def synced(self, ticket: int) -> str:
        answer = self.answers.pop(ticket)
        assert isinstance(answer, Synced), answer
        return answer.assignment.decode()

    def refused(self, ticket: int) -> ErrorCode:
        answer = self.answers.pop(ticket)
        assert isinstance(answer, KafkaError), answer
        return answer.code

    def waits(self, ticket: int) -> bool:
        return ticket not in self.answers

    def stable(self, *members: str) -> int:
        """Has these members, all new ones, share the work; the generation. The first one leads."""
        tickets = {name: self.join("", fresh=name) for name in members}
        places = {name: self.joined(ticket) for name, ticket in tickets.items() if not self.waits(ticket)}
        for name in places:  # whoever was alone before the others came joins again with them
            tickets[name] = self.join(name)
        generation = max(self.joined(ticket).generation for ticket in tickets.values())
        parts = {name: f"part of {name}" for name in members}
        syncs = {name: self.sync(name, generation) for name in members[1:]}
        syncs[members[0]] = self.sync(members[0], generation, **parts)
        assert {name: self.synced(ticket) for name, ticket in syncs.items()} == parts
        return generation

    def _under(self, ticket: int, reply: object) -> int:
        if not isinstance(reply, Parked):
            assert isinstance(reply, Joined | Synced)
            answer: Answered = reply
            self.answers[ticket] = answer
        return ticket
