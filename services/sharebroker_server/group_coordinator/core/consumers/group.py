"""A consumer group's members, and how they come to the same generation (Kafka: ClassicGroup).

All members join; one of them, the leader, gets to know the others and assigns the partitions; each learns its
part as it syncs. Who comes or goes makes all join again. Nothing of this is written down: a coordinator that
takes over knows no member, and they join again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.core.consumers.commands import (
    Answered,
    Join,
    Joined,
    JoinedMember,
    MemberOf,
    Parked,
    Protocols,
    Sync,
    Synced,
)
from sharebroker_server.group_coordinator.core.session_clocks import Deadlines, Session
from sharebroker_server.group_coordinator.core.validation import no_member


class State(Enum):
    """Kafka's ClassicGroupState; a dead group is one that is not there."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True)
class Consumer:
    """A member. While `joining` or `syncing` is a ticket, it waits for an answer, and needs no heartbeat."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    assignment: bytes = b""
    joining: int | None = None
    syncing: int | None = None

    def metadata(self, protocol: str) -> bytes:
        """What it tells an assignor of itself."""
        return dict(self.protocols).get(protocol, b"")


@dataclass(frozen=True, slots=True)
class Around:
    """What a group stands on: the clocks of its members, and how answers reach those who wait.

    A group without members waits `initial_delay` seconds for more to come with the first.
    """

    clocks: Deadlines[Session]
    answer: Callable[[int, Answered], None]
    initial_delay: float


class ConsumerGroup:
    """Methods that take `now` may answer members that wait."""

    def __init__(self, group_id: str, around: Around) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Consumer] = {}
        self.promised: set[str] = set()
        self._instances: dict[str, str] = {}
        self._around = around
        self._waits_for_all = True

    @property
    def size(self) -> int:
        """Members, and who was given an id to join with."""
        return len(self.members) + len(self.promised)

    def promise(self, member_id: str, until: float) -> None:
        """Whoever comes with this id may join."""
        self.promised.add(member_id)
        self._around.clocks.touch(Session(self.group_id, member_id), until)

    def check_protocols(self, asked: Join) -> None:
        """Raises INCONSISTENT_GROUP_PROTOCOL where the others know no assignor that this one knows."""
        names = {name for name, _ in asked.protocols}
        others = [one for one in self.members.values() if one.member_id != asked.member_id]
        fits = asked.protocol_type and names and (not others or asked.protocol_type == self.protocol_type)
        if not fits or not names.intersection(*(dict(one.protocols) for one in others)):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"The members of group {self.group_id} have no assignor in common with this one.",
                metadata={"group_id": self.group_id},
            )

    def replaced(self, instance_id: str | None) -> str | None:
        """The member that has an instance id."""
        return None if instance_id is None else self._instances.get(instance_id)

    def known(self, who: MemberOf) -> Consumer:
        """The member of this generation. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
        member = self.member(who.member_id, who.instance_id)
        if who.generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"Group {self.group_id} is at generation {self.generation}, not {who.generation}.",
            )
        return member

    def member(self, member_id: str, instance_id: str | None) -> Consumer:
        """The member. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if instance_id is not None and self._instances.get(instance_id, member_id) != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Another member of group {self.group_id} has the instance id {instance_id} now.",
            )
        found = self.members.get(member_id)
        if found is None or (instance_id is not None and found.instance_id != instance_id):
            raise no_member(self.group_id, member_id)
        return found

    def join(self, asked: Join, member_id: str, now: float) -> Joined | Parked:
        """A member that may join, joins; `check_protocols` comes first."""
        before = self.members.get(member_id)
        if before is None:
            before = self._take_place(asked, member_id)
        unchanged = before is not None and before.protocols == asked.protocols
        if unchanged and self._may_stay(member_id):
            member = self.members[member_id]
            self.touch(member, now)
            return self._joined(member)
        self._put(asked, member_id)
        self._prepare(now)
        self._go_on(now)
        return Parked()

    def sync(self, asked: Sync, now: float) -> Synced | Parked:
        """A member's part. Raises REBALANCE_IN_PROGRESS, INCONSISTENT_GROUP_PROTOCOL and as `known`."""
        member = self.known(asked.member)
        self._check_agreed(asked)
        if self.state is State.PREPARING:
            raise self._rebalancing()
        if self.state is State.STABLE:
            self.touch(member, now)
            return self._synced(member)
        self._park_sync(member, asked.ticket)
        if member.member_id == self.leader:
            self._assign(asked, now)
        return Parked()

    def stay(self, who: MemberOf, now: float) -> None:
        """A heartbeat. Raises REBALANCE_IN_PROGRESS and as `known`."""
        self.touch(self.known(who), now)
        if self.state is State.PREPARING:
            raise self._rebalancing()

    def may_commit(self, who: MemberOf, now: float) -> None:
        """Raises REBALANCE_IN_PROGRESS and as `known` for who may commit no offsets."""
        if self.state is State.EMPTY and who.generation < 0:
            return
        member = self.known(who)
        if self.state is State.COMPLETING:
            raise self._rebalancing()
        self.touch(member, now)

    def may_commit_in_transaction(self, who: MemberOf) -> None:
        """Raises as `known` for who is no member. Old clients do not say who they are: they may."""
        nameless = not who.member_id and who.instance_id is None
        if who.generation >= 0 or not (nameless or self.state is State.EMPTY):
            self.known(who)

    def touch(self, member: Consumer, now: float) -> None:
        """The member was heard of."""
        if member.joining is None and member.syncing is None:
            self._around.clocks.touch(Session(self.group_id, member.member_id), now + member.session_timeout)

    def remove(self, member_id: str, now: float) -> None:
        """The member left, or was silent for too long; or did not come who had been given the id."""
        self.promised.discard(member_id)
        self._drop(member_id)
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare(now)
        self._go_on(now)

    def overdue(self, now: float) -> None:
        """Nobody waits any longer: for members that are to join again, or are to sync."""
        if self.state is State.PREPARING:
            self._complete(now)
        else:  # an empty or stable group has no such clock
            for member_id in [one.member_id for one in self.members.values() if one.syncing is None]:
                self._drop(member_id)
            self._prepare(now)
            self._go_on(now)

    def _may_stay(self, member_id: str) -> bool:
        """Whether who joins again as it was has nothing new to hear; a leader wants all to join again."""
        if self.state is State.COMPLETING:
            return True
        return self.state is State.STABLE and member_id != self.leader

    def _take_place(self, asked: Join, member_id: str) -> Consumer | None:
        """A fixed member begins anew: it has the place of the one before it, which is told."""
        old_id = self.replaced(asked.instance_id)
        if old_id is None:
            return None
        old = self.members[old_id]
        self._answer_waiting(old, KafkaError(ErrorCode.FENCED_INSTANCE_ID))
        self._forget(old)
        self.members[member_id] = replace(old, member_id=member_id)
        self._instances[str(old.instance_id)] = member_id
        if self.leader == old_id:
            self.leader = member_id
        return self.members[member_id]

    def _put(self, asked: Join, member_id: str) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._answer_waiting(before, self._rebalancing())
        if not self.members:
            self.protocol_type = asked.protocol_type
        self.promised.discard(member_id)
        self._around.clocks.drop(Session(self.group_id, member_id))
        self.members[member_id] = Consumer(
            member_id,
            asked.instance_id,
            asked.client_id,
            asked.client_host,
            asked.session_timeout,
            asked.rebalance_timeout,
            asked.protocols,
            joining=asked.ticket,
        )
        if asked.instance_id is not None:
            self._instances[asked.instance_id] = member_id

    def _prepare(self, now: float) -> None:
        """All are to join again; who waits for its part hears so."""
        if self.state is State.PREPARING:
            return
        for member in self.members.values():
            self._answer_sync(member, self._rebalancing(), now)
        first = self.state is State.EMPTY
        self.state = State.PREPARING
        self._waits_for_all = not first or not self._around.initial_delay
        self._wait(now + (self._around.initial_delay if first else self._patience()))

    def _go_on(self, now: float) -> None:
        """Ends the wait where nobody is waited for."""
        waiting = all(one.joining is not None for one in self.members.values())
        ready = self._waits_for_all and waiting and not self.promised
        if self.state is State.PREPARING and (ready or not self.members):
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Whoever has joined makes up the next generation; fixed members stay in it as long as they live."""
        joined = [(one, ticket) for one in self.members.values() if (ticket := one.joining) is not None]
        for one in [one for one in self.members.values() if one.joining is None and one.instance_id is None]:
            self._drop(one.member_id)
        if self.members and not joined:
            self._wait(now + self._patience())
            return
        self.generation += 1
        if not self.members:
            self._empty()
            return
        self.protocol = self._chosen()
        if self.leader not in {one.member_id for one, _ in joined}:
            self.leader = joined[0][0].member_id
        self.state = State.COMPLETING
        self._wait(now + self._patience())
        for one, ticket in joined:
            one.joining = None
            self.touch(one, now)
            self._around.answer(ticket, self._joined(one))

    def _empty(self) -> None:
        self.state, self.protocol, self.leader = State.EMPTY, "", ""
        self._around.clocks.drop(self._own)

    def _assign(self, asked: Sync, now: float) -> None:
        self.state = State.STABLE
        self._around.clocks.drop(self._own)
        for one in self.members.values():
            one.assignment = asked.assignments.get(one.member_id, b"")
            self._answer_sync(one, self._synced(one), now)

    def _park_sync(self, member: Consumer, ticket: int) -> None:
        if member.syncing is not None:
            self._around.answer(member.syncing, self._rebalancing())
        member.syncing = ticket
        self._around.clocks.drop(Session(self.group_id, member.member_id))

    def _answer_sync(self, member: Consumer, answer: Answered, now: float) -> None:
        """Answers a member that waits for its part."""
        if member.syncing is None:
            return
        ticket, member.syncing = member.syncing, None
        self.touch(member, now)
        self._around.answer(ticket, answer)

    def _answer_waiting(self, member: Consumer, error: KafkaError) -> None:
        for ticket in (member.joining, member.syncing):
            if ticket is not None:
                self._around.answer(ticket, error)
        member.joining = member.syncing = None

    def _drop(self, member_id: str) -> None:
        self._around.clocks.drop(Session(self.group_id, member_id))
        member = self.members.get(member_id)
        if member is not None:
            self._answer_waiting(member, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
            self._forget(member)

    def _forget(self, member: Consumer) -> None:
        del self.members[member.member_id]
        self._around.clocks.drop(Session(self.group_id, member.member_id))
        if member.instance_id is not None:
            self._instances.pop(member.instance_id, None)

    def _chosen(self) -> str:
        """The assignor that most prefer of those that all know."""
        everybody = list(self.members.values())
        common = set(dict(everybody[0].protocols)).intersection(*(dict(one.protocols) for one in everybody))
        votes = Counter(next(name for name, _ in one.protocols if name in common) for one in everybody)
        return votes.most_common(1)[0][0]

    def _joined(self, member: Consumer) -> Joined:
        everybody: Iterable[Consumer] = self.members.values() if member.member_id == self.leader else ()
        return Joined(
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            member.member_id,
            tuple(
                JoinedMember(one.member_id, one.instance_id, one.metadata(self.protocol)) for one in everybody
            ),
        )

    def _synced(self, member: Consumer) -> Synced:
        return Synced(self.protocol_type, self.protocol, member.assignment)

    def _check_agreed(self, asked: Sync) -> None:
        if asked.protocol_type in (None, self.protocol_type) and asked.protocol in (None, self.protocol):
            return
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Group {self.group_id} agreed on {self.protocol} of {self.protocol_type}.",
        )

    def _rebalancing(self) -> KafkaError:
        return KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"Members of group {self.group_id} came or went; join again.",
            metadata={"group_id": self.group_id},
        )

    def _patience(self) -> float:
        return max((one.rebalance_timeout for one in self.members.values()), default=0.0)

    def _wait(self, until: float) -> None:
        self._around.clocks.touch(self._own, until)

    @property
    def _own(self) -> Session:
        """The clock of the group itself: no member has an empty id."""
        return Session(self.group_id, "")
