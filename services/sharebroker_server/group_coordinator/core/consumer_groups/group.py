"""A consumer group of the classic protocol: its members and how they agree on a generation.

Theory of operation
-------------------

A rebalance has two rounds. In the first, all members send JoinGroup; when all have joined, or time is up, a
new generation begins, and every joined member receives its reply. One member is the leader; its reply lists
all members. In the second, all members send SyncGroup; the leader's request contains the assignment of every
member, and with it all members receive their part. Source: Kafka's ClassicGroup and GroupMetadataManager.

                 first join                    all joined, or time is up
    EMPTY ------------------> PREPARING ----------------------------------> COMPLETING
      ^                        ^  |  ^                                          |
      |     no member remains  |  |  | a member joins, leaves or is fenced      | the leader syncs
      +---------------------------+  +------------------------------------ STABLE

* PREPARING: members that joined wait for the others; their replies are deferred. The first rebalance of an
  empty group waits `initial_delay` seconds for more members instead of ending with the first one.
* COMPLETING: members that synced wait for the leader. A member that does not sync in time is removed.
* STABLE: heartbeats keep the sessions alive. A member whose session times out is removed.

Invariants:

* A member that waits for a deferred reply (`joining` or `syncing` has the id of the reply) has no session
  deadline. It receives exactly one reply: the result, or the error that ends its wait.
* A *static* member has an instance id. It stays in the group over a rebalance that it missed, until its
  session times out. A new member with its instance id takes its place and fences it.
* A *promised* member id was returned with MEMBER_ID_REQUIRED and has not joined yet. It counts as a member
  for the size of the group, and a rebalance waits for it.
* Offsets are in the log; membership is soft state. After a fail-over a group has no members, and all of
  them join again.

A group is a value as far as decisions are concerned: a decision changes a copy, which replaces the original
when the decision is accepted (`Edit`). Members are immutable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.machine import Effect, SoftChange
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.group_coordinator.core.deadlines import DeadlineSet, MemberSession
from sharebroker_server.group_coordinator.core.validation import group_error, unknown_member


class ConsumerGroupState(Enum):
    """Kafka's ClassicGroupState; a group in state Dead does not exist here."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A member; times are seconds. `joining` and `syncing` are ids of deferred replies."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: c.Protocols
    assignment: bytes = b""
    joining: int | None = None
    syncing: int | None = None

    @property
    def waits(self) -> bool:
        """Whether the member waits for a deferred reply."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str) -> bytes:
        """Returns what the member states to an assignor about itself."""
        return dict(self.protocols).get(protocol, b"")


@dataclass(slots=True)
class ConsumerGroup:
    """One group. Methods with the parameter `now` may only be called on a copy."""

    group_id: str
    initial_delay: float
    state: ConsumerGroupState = ConsumerGroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Consumer] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)
    _instances: dict[str, str] = field(default_factory=dict)
    _waits_for_all: bool = True
    _deadlines: dict[MemberSession, float | None] = field(default_factory=dict, compare=False, repr=False)
    _replies: list[tuple[int, c.DeferredResult]] = field(default_factory=list, compare=False, repr=False)

    def copy(
        self, deadlines: dict[MemberSession, float | None], replies: list[tuple[int, c.DeferredResult]]
    ) -> ConsumerGroup:
        """Returns a copy that adds changed deadlines and deferred replies to these collections."""
        return replace(
            self,
            members=dict(self.members),
            promised=set(self.promised),
            _instances=dict(self._instances),
            _deadlines=deadlines,
            _replies=replies,
        )

    @property
    def size(self) -> int:
        """The number of members and promised member ids."""
        return len(self.members) + len(self.promised)

    # Checks

    def check_protocols(self, command: c.Join) -> None:
        """Raises INCONSISTENT_GROUP_PROTOCOL if no assignor is common to this member and the others."""
        names = {name for name, _ in command.protocols}
        others = [member for member in self.members.values() if member.member_id != command.member_id]
        fits = command.protocol_type and names and (not others or command.protocol_type == self.protocol_type)
        if not fits or not names.intersection(*(dict(member.protocols) for member in others)):
            raise group_error(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                self.group_id,
                f"The members of group {self.group_id} have no assignor in common with this one.",
            )

    def static_member(self, instance_id: str | None) -> str | None:
        """Returns the id of the member with an instance id."""
        return None if instance_id is None else self._instances.get(instance_id)

    def identified(self, identity: c.MemberIdentity) -> Consumer:
        """Returns the member of this generation.

        Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        member = self.member(identity.member_id, identity.instance_id)
        if identity.generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"Group {self.group_id} is at generation {self.generation}, not {identity.generation}.",
            )
        return member

    def member(self, member_id: str, instance_id: str | None) -> Consumer:
        """Returns the member. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if instance_id is not None and self._instances.get(instance_id, member_id) != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Another member of group {self.group_id} has the instance id {instance_id} now.",
            )
        found = self.members.get(member_id)
        if found is None or (instance_id is not None and found.instance_id != instance_id):
            raise unknown_member(self.group_id, member_id)
        return found

    def check_transactional_commit(self, identity: c.MemberIdentity) -> None:
        """Raises as `identified` does. Old clients do not identify their member; their commits are valid."""
        anonymous = not identity.member_id and identity.instance_id is None
        if identity.generation >= 0 or not (anonymous or self.state is ConsumerGroupState.EMPTY):
            self.identified(identity)

    def committing(self, identity: c.MemberIdentity) -> Consumer | None:
        """Returns the member that may commit offsets, None for a client that is no member.

        Raises REBALANCE_IN_PROGRESS and as `identified` does.
        """
        if self.state is ConsumerGroupState.EMPTY and identity.generation < 0:
            return None
        member = self.identified(identity)
        if self.state is ConsumerGroupState.COMPLETING:
            raise self.rebalancing()
        return member

    def session(self, member: Consumer, now: float) -> tuple[DeadlineSet[MemberSession], ...]:
        """Returns the soft change that extends the member's session; none while it waits for a reply."""
        if member.waits:
            return ()
        return (DeadlineSet(MemberSession(self.group_id, member.member_id), now + member.session_timeout),)

    def rebalancing(self) -> KafkaError:
        """Returns REBALANCE_IN_PROGRESS: the member must join again."""
        return group_error(
            ErrorCode.REBALANCE_IN_PROGRESS,
            self.group_id,
            f"Members of group {self.group_id} came or went; join again.",
        )

    # Changes

    def promise(self, member_id: str, until: float) -> None:
        """Lets a client join with this id until the deadline."""
        self.promised.add(member_id)
        self._deadlines[MemberSession(self.group_id, member_id)] = until

    def join(self, command: c.Join, member_id: str, now: float) -> c.Joined | c.Deferred:
        """Adds or updates a member; the caller has checked its protocols."""
        before = self.members.get(member_id)
        if before is None:
            before = self._replace_static_member(command, member_id)
        unchanged = before is not None and before.protocols == command.protocols
        if unchanged and self._may_stay(member_id):
            member = self.members[member_id]
            self._extend(member, now)
            return self._joined(member)
        self._put(command, member_id)
        self._prepare(now)
        self._complete_if_ready(now)
        return c.Deferred()

    def sync(self, command: c.Sync, now: float) -> c.Synced | c.Deferred:
        """Returns a member's part.

        Raises REBALANCE_IN_PROGRESS, INCONSISTENT_GROUP_PROTOCOL and as `identified`.
        """
        member = self.identified(command.member)
        self._check_agreed(command)
        if self.state is ConsumerGroupState.PREPARING:
            raise self.rebalancing()
        if self.state is ConsumerGroupState.STABLE:
            self._extend(member, now)
            return self._synced(member)
        self._await_sync(member, command.reply_id)
        if member.member_id == self.leader:
            self._distribute(command, now)
        return c.Deferred()

    def remove(self, member_id: str, now: float) -> None:
        """Removes a member that left or whose session timed out, or a promised id that was not used."""
        self.promised.discard(member_id)
        self._drop(member_id)
        if self.state in (ConsumerGroupState.STABLE, ConsumerGroupState.COMPLETING):
            self._prepare(now)
        self._complete_if_ready(now)

    def overdue(self, now: float) -> None:
        """Ends the wait of the current round: for members to join, or for members to sync."""
        if self.state is ConsumerGroupState.PREPARING:
            self._complete(now)
        else:  # an empty or stable group has no such deadline
            for member_id in [member.member_id for member in self.members.values() if member.syncing is None]:
                self._drop(member_id)
            self._prepare(now)
            self._complete_if_ready(now)

    def _may_stay(self, member_id: str) -> bool:
        """Whether a member that joins again unchanged needs no rebalance.

        A leader that does so requests one.
        """
        if self.state is ConsumerGroupState.COMPLETING:
            return True
        return self.state is ConsumerGroupState.STABLE and member_id != self.leader

    def _replace_static_member(self, command: c.Join, member_id: str) -> Consumer | None:
        """Gives a static member's place to the new member with its instance id; fences the old one."""
        old_id = self.static_member(command.instance_id)
        if old_id is None:
            return None
        old = self._reject_waiting(self.members[old_id], KafkaError(ErrorCode.FENCED_INSTANCE_ID))
        self._forget(old)
        self.members[member_id] = replace(old, member_id=member_id)
        self._instances[str(old.instance_id)] = member_id
        if self.leader == old_id:
            self.leader = member_id
        return self.members[member_id]

    def _put(self, command: c.Join, member_id: str) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._reject_waiting(before, self.rebalancing())
        if not self.members:
            self.protocol_type = command.protocol_type
        self.promised.discard(member_id)
        self._deadlines[MemberSession(self.group_id, member_id)] = None
        self.members[member_id] = Consumer(
            member_id,
            command.instance_id,
            command.client_id,
            command.client_host,
            command.session_timeout,
            command.rebalance_timeout,
            command.protocols,
            joining=command.reply_id,
        )
        if command.instance_id is not None:
            self._instances[command.instance_id] = member_id

    def _prepare(self, now: float) -> None:
        """Starts a rebalance; members that wait for their part receive REBALANCE_IN_PROGRESS."""
        if self.state is ConsumerGroupState.PREPARING:
            return
        for member in list(self.members.values()):
            self._reply_to_sync(member, self.rebalancing(), now)
        first = self.state is ConsumerGroupState.EMPTY
        self.state = ConsumerGroupState.PREPARING
        self._waits_for_all = not first or not self.initial_delay
        self._deadlines[self._own] = now + (self.initial_delay if first else self._rebalance_timeout())

    def _complete_if_ready(self, now: float) -> None:
        """Ends the first round if no member is missing."""
        joined = all(member.joining is not None for member in self.members.values())
        ready = self._waits_for_all and joined and not self.promised
        if self.state is ConsumerGroupState.PREPARING and (ready or not self.members):
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Begins the next generation with the members that joined, and the static members."""
        joined = [(member, id_) for member in self.members.values() if (id_ := member.joining) is not None]
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._drop(member.member_id)
        if self.members and not joined:
            self._deadlines[self._own] = now + self._rebalance_timeout()
            return
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = ConsumerGroupState.EMPTY, "", ""
            self._deadlines[self._own] = None
            return
        self.protocol = self._elected_protocol()
        if self.leader not in {member.member_id for member, _ in joined}:
            self.leader = joined[0][0].member_id
        self.state = ConsumerGroupState.COMPLETING
        self._deadlines[self._own] = now + self._rebalance_timeout()
        for member, reply_id in joined:
            self._extend(self._update(member, joining=None), now)
            self._replies.append((reply_id, self._joined(member)))

    def _distribute(self, command: c.Sync, now: float) -> None:
        """Stores the leader's assignment and replies to the members that wait for it."""
        self.state = ConsumerGroupState.STABLE
        self._deadlines[self._own] = None
        for member in list(self.members.values()):
            assigned = self._update(member, assignment=command.assignments.get(member.member_id, b""))
            self._reply_to_sync(assigned, self._synced(assigned), now)

    def _await_sync(self, member: Consumer, reply_id: int) -> None:
        if member.syncing is not None:
            self._replies.append((member.syncing, self.rebalancing()))
        self._update(member, syncing=reply_id)
        self._deadlines[MemberSession(self.group_id, member.member_id)] = None

    def _reply_to_sync(self, member: Consumer, result: c.DeferredResult, now: float) -> None:
        """Replies to a member that waits for its part."""
        if member.syncing is not None:
            self._replies.append((member.syncing, result))
            self._extend(self._update(member, syncing=None), now)

    def _reject_waiting(self, member: Consumer, error: KafkaError) -> Consumer:
        """Ends the waits of a member with an error."""
        self._replies += [(reply, error) for reply in (member.joining, member.syncing) if reply is not None]
        return self._update(member, joining=None, syncing=None)

    def _extend(self, member: Consumer, now: float) -> None:
        for change in self.session(member, now):
            self._deadlines[change.key] = change.deadline

    def _update(
        self,
        member: Consumer,
        **changes: int | bytes | None,
    ) -> Consumer:
        updated = self.members[member.member_id] = replace(member, **changes)  # type: ignore[arg-type]  # fields
        return updated

    def _drop(self, member_id: str) -> None:
        self._deadlines[MemberSession(self.group_id, member_id)] = None
        member = self.members.get(member_id)
        if member is not None:
            self._reject_waiting(member, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
            self._forget(member)

    def _forget(self, member: Consumer) -> None:
        del self.members[member.member_id]
        self._deadlines[MemberSession(self.group_id, member.member_id)] = None
        if member.instance_id is not None:
            self._instances.pop(member.instance_id, None)

    def _elected_protocol(self) -> str:
        """Returns the assignor that most members prefer among those that all members support."""
        members = list(self.members.values())
        common = set(dict(members[0].protocols)).intersection(*(dict(member.protocols) for member in members))
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in members)
        return votes.most_common(1)[0][0]

    def _joined(self, member: Consumer) -> c.Joined:
        listed: Iterable[Consumer] = self.members.values() if member.member_id == self.leader else ()
        return c.Joined(
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            member.member_id,
            tuple(
                c.JoinedMember(other.member_id, other.instance_id, other.metadata(self.protocol))
                for other in listed
            ),
        )

    def _synced(self, member: Consumer) -> c.Synced:
        return c.Synced(self.protocol_type, self.protocol, member.assignment)

    def _check_agreed(self, command: c.Sync) -> None:
        if command.protocol_type in (None, self.protocol_type) and command.protocol in (None, self.protocol):
            return
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Group {self.group_id} agreed on {self.protocol} of {self.protocol_type}.",
        )

    def _rebalance_timeout(self) -> float:
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def _own(self) -> MemberSession:
        """The key of the group's own deadline: no member has an empty id."""
        return MemberSession(self.group_id, "")


@dataclass(frozen=True, slots=True)
class GroupReplaced(SoftChange):
    """The group has another state from now on; None: it has no members any more."""

    group_id: str
    group: ConsumerGroup | None


@dataclass(frozen=True, slots=True)
class DeferredReply(Effect):
    """The reply to an earlier command whose reply was `Deferred`, by the id that the command carried."""

    reply_id: int
    result: c.DeferredResult


@dataclass(slots=True)
class Edit:
    """Copies of groups that a decision changes; `soft` and `effects` are the outcome."""

    groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    deadlines: dict[MemberSession, float | None] = field(default_factory=dict)
    replies: list[tuple[int, c.DeferredResult]] = field(default_factory=list)

    def of(self, group: ConsumerGroup) -> ConsumerGroup:
        """Returns the copy of a group; what it changes is collected here."""
        copied = self.groups.get(group.group_id)
        if copied is None:
            copied = self.groups[group.group_id] = group.copy(self.deadlines, self.replies)
        return copied

    @property
    def soft(self) -> tuple[SoftChange, ...]:
        """The soft changes of the decision."""
        return (*self._replaced(), *(DeadlineSet(session, when) for session, when in self.deadlines.items()))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the decision, in the order in which they arose."""
        return tuple(DeferredReply(*reply) for reply in self.replies)

    def _replaced(self) -> Iterable[SoftChange]:
        return (
            GroupReplaced(group_id, group if group.size else None) for group_id, group in self.groups.items()
        )
