"""The share groups of a shard: commands to decisions, records and soft changes to state.

Theory of operation
-------------------

A share group is a set of members, a target assignment, and the share state of the partitions it uses. A
heartbeat does all the work: it updates the member's profile, raises the *group epoch* if anything that
influences the assignment changed, requests the initialisation of missing share state, runs the assignor for
partitions that have state, and moves the member to its target assignment. Three epochs order these steps:

* `epoch` (group epoch) rises with every change that requires a new target assignment. State is initialised
  with the group epoch as state epoch, so a later initialisation always wins over an earlier, delayed one.
* `assignment_epoch` is the group epoch for which the assignor ran last; it never exceeds `epoch`.
* The member epoch is the assignment epoch that the member received. Heartbeats must carry it, or the epoch
  before it (the response may have been lost); any other value is fenced.

Share state lives in the share coordinator. A partition of a topic is `initializing`, `initialized` or
`deleting`. The machine records the intention, the reply requests the change, the service performs it and
reports the outcome with StateInitialized or StateDeleted. Only initialised partitions are assigned.

Durable state: the groups, and `floor`, the highest epoch of all deleted groups. A new group starts above the
floor, so that a delayed write for a deleted group is older than any state of its successor.

Soft state, lost with the memory of the shard:

* Sessions. `sessions.py` describes how a member is fenced in time although they are lost.
* State changes in progress. They prevent two changes of one share-partition from overtaking each other. A
  change that has timed out, or that was lost in a load, counts as interrupted: the next heartbeat raises the
  epoch and initialises again.
* The time of the last assignment per group, for the assignment interval.
* Heartbeat stamps. A heartbeat that changed nothing is stamped with all that its result depends on; while
  the stamp is the same, an UnchangedHeartbeat only extends the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import Decision, SoftChange
from sharebroker_server.group_coordinator.core import validation
from sharebroker_server.group_coordinator.core.deadlines import MemberSession, StateChangesInProgress
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.share_groups import commands as c
from sharebroker_server.group_coordinator.core.share_groups import heartbeat, share_state
from sharebroker_server.group_coordinator.core.share_groups.group import (
    FloorRecord,
    GroupRecord,
    Member,
    MemberRecord,
    PendingGroup,
    ShareGroup,
    ShareGroupRecord,
    apply_to,
    only_silence,
)
from sharebroker_server.group_coordinator.core.share_groups.sessions import Observation, Sessions, Timing

DUE_PER_DEADLINE: Final = 100

FIRST_EPOCH: Final = 1
"""The epoch of a group before its first change, as in Kafka: a new group with a member is at epoch 2."""

_Record = ShareGroupRecord | FloorRecord
_Decision = Decision[_Record, "c.ShareGroupReply"]


class ShareGroups:
    """Share groups change by `apply` only, session deadlines and the like also by `apply_soft`."""

    def __init__(self, view: MetadataImage) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self.floor = 0
        self._view = view
        self._sessions = Sessions()
        self._changes = StateChangesInProgress()
        self._assigned_at: dict[str, float] = {}
        self._stamps: dict[MemberSession, c.HeartbeatStamp] = {}
        self._deciders: Mapping[type, Callable[[Any, float], _Decision]] = {
            c.Heartbeat: self._heartbeat,
            c.UnchangedHeartbeat: self._unchanged_heartbeat,
            c.StateInitialized: self._state_initialized,
            c.DescribeGroup: self._describe,
            c.ListGroups: self._list,
            c.ListOffsetPartitions: self._offset_partitions,
            c.AlterOffsets: self._alter,
            c.DeleteOffsets: self._delete_offsets,
            c.DeleteGroup: self._delete_group,
            c.StateDeleted: self._state_deleted,
        }

    def decide(self, command: c.ShareGroupCommand, now: float) -> _Decision:
        """Returns the decision about a command. Raises the errors that the commands name."""
        return self._deciders[type(command)](command, now)

    def apply(self, record: ShareGroupRecord) -> None:
        """Applies a record to its group."""
        group = self.groups.get(record.group_id)
        if group is None:
            group = self.groups[record.group_id] = ShareGroup(record.group_id)
        if not only_silence(group, record):
            group.revision += 1
        apply_to(group, record)
        if isinstance(record, GroupRecord) and record.epoch is None:
            del self.groups[record.group_id]
            self._assigned_at.pop(record.group_id, None)
        elif isinstance(record, MemberRecord):
            session = MemberSession(record.group_id, record.member_id)
            if record.profile is None:
                self._sessions.drop(session)
            else:
                self._sessions.track(session)
            if record.profile is None or record.silence is not None:
                # Only a full heartbeat ends a stored silence.
                self._stamps.pop(session, None)

    def apply_soft(self, change: SoftChange) -> None:
        """Applies a soft change of an accepted decision."""
        match change:
            case c.SessionObserved(session, observation, check_at):
                self._sessions.set(session, observation, check_at)
            case c.HeartbeatStamped(session, stamp):
                self._stamps[session] = stamp
            case c.TargetAssigned(group_id, at):
                self._assigned_at[group_id] = at
            case c.StateChangeBegun(group_id, partitions, until):
                self._changes.begin(group_id, partitions, until)
            case c.StateChangeEnded(group_id, partitions):
                self._changes.end(group_id, partitions)
            case _:
                raise TypeError(f"not a soft change of share groups: {change!r}")

    def next_deadline(self) -> float | None:
        """Returns when a session has to be checked."""
        return self._sessions.next_check()

    def on_deadline(self, now: float) -> Decision[_Record, None]:
        """Fences members whose session timed out, and stores the silence of others.

        Observes members loaded from the log from now on.
        """
        soft: list[SoftChange] = [self._loaded(session, now) for session in self._sessions.new()]
        pending: dict[str, PendingGroup] = {}
        stored, fenced = list[_Record](), list[c.MemberFenced]()
        for session in self._sessions.due(now, DUE_PER_DEADLINE):
            if self._sessions.observation(session).fenced_at(self._timing(session.group_id)) <= now:
                group = pending.setdefault(session.group_id, PendingGroup(self.groups[session.group_id]))
                heartbeat.remove(group, session.member_id)
                fenced.append(c.MemberFenced(*session))
            else:
                self._check_silence(session, now, stored, soft)
        records = (*stored, *(record for group in pending.values() for record in group.records))
        raised = sum(group.raised for group in pending.values())
        return Decision(records, None, tuple(soft), (*fenced, *c.rebalanced(raised)))

    def _check_silence(
        self, session: MemberSession, now: float, records: list[_Record], soft: list[SoftChange]
    ) -> None:
        """Adds the record that stores a member's silence, if one is due, and the time of the next check."""
        member, observation = self._member(session), self._sessions.observation(session)
        silence, timing = member.silence, self._timing(session.group_id)
        if observation.stored_at(silence, timing) <= now:
            silence = observation.silence(now, timing)
            records.append(MemberRecord(*session, member.profile, silence))
        soft.append(c.SessionObserved(session, observation, observation.next_check(silence, timing)))

    def _heartbeat(self, command: c.Heartbeat, now: float) -> _Decision:
        group_id, group = command.group_id, self.groups.get(command.group_id)
        heartbeat.check(group, command, self._view, len(self.groups))
        pending = PendingGroup(group or self._new_group(group_id))
        reply = heartbeat.apply_heartbeat(pending, command, self._context(group_id, now))
        soft: list[SoftChange] = []
        if pending.group.assignment_epoch != (group.assignment_epoch if group else 0):
            soft.append(c.TargetAssigned(group_id, now))
        if reply.initialize is not None:
            soft += self._begun(group_id, reply.initialize.start_offsets, now)
        if command.member_epoch != c.LEAVE:
            session = MemberSession(group_id, command.member_id)
            soft.append(self._seen(session, now))
            if not pending.records and pending.group.converged:
                soft.append(c.HeartbeatStamped(session, self._stamp(pending.group, reply.member_epoch)))
        return Decision(tuple(pending.records), reply, tuple(soft), c.rebalanced(pending.raised))

    def _unchanged_heartbeat(self, command: c.UnchangedHeartbeat, now: float) -> _Decision:
        group = self.groups.get(command.group_id)
        session = MemberSession(command.group_id, command.member_id)
        if group is None or self._stamps.get(session) != self._stamp(group, command.member_epoch):
            return Decision((), False)
        return Decision((), True, (self._seen(session, now),))

    def _stamp(self, group: ShareGroup, member_epoch: int) -> c.HeartbeatStamp:
        return member_epoch, group.revision, self._view.revision

    def _context(self, group_id: str, now: float) -> heartbeat.HeartbeatContext:
        interval = self._view.group_config(group_id).share_assignment_interval_ms / 1000
        last = self._assigned_at.get(group_id, float("-inf"))
        return heartbeat.HeartbeatContext(
            self._view, now, self._changes.running(group_id, now), may_assign=now - last >= interval
        )

    def _state_initialized(self, command: c.StateInitialized, now: float) -> _Decision:
        ended = (c.StateChangeEnded(command.group_id, command.done | command.failed),)
        group = self.groups.get(command.group_id)
        if group is None:
            return Decision((), None, ended)
        pending = PendingGroup(group)
        share_state.mark_initialized(pending, command.done)
        return Decision(tuple(pending.records), None, ended)

    def _describe(self, command: c.DescribeGroup, now: float) -> _Decision:
        return Decision((), self._group(command.group_id).copy())

    def _list(self, _: c.ListGroups, _now: float) -> _Decision:
        return Decision((), {group.group_id: group.state.value for group in self.groups.values()})

    def _offset_partitions(self, command: c.ListOffsetPartitions, now: float) -> _Decision:
        group = self.groups.get(command.group_id)
        topics = group.topics if group else {}
        return Decision(
            (), {topic_id: state.initialized for topic_id, state in topics.items() if state.initialized}
        )

    def _alter(self, command: c.AlterOffsets, now: float) -> _Decision:
        group = self.groups.get(command.group_id)
        validation.check_group_epoch(group, command.group_id, command.group_epoch)
        if group is None:
            validation.check_group_count(command.group_id, len(self.groups), self._view.broker)
        self._check_no_change(command.group_id, now)
        pending = PendingGroup(group or self._new_group(command.group_id))
        plan = share_state.alter(pending, command, self._view, int(now * 1000))
        begun = self._begun(command.group_id, plan.initialize.start_offsets, now)
        return Decision(tuple(pending.records), plan, begun)

    def _delete_offsets(self, command: c.DeleteOffsets, now: float) -> _Decision:
        pending = self._administered(command, now)
        plan = share_state.forget_topics(pending, command, self._view)
        return Decision(tuple(pending.records), plan, self._begun(command.group_id, plan.partitions, now))

    def _delete_group(self, command: c.DeleteGroup, now: float) -> _Decision:
        pending = self._administered(command, now)
        plan = share_state.forget_group(pending, self._view)
        records = (*pending.records, *self._raised_floor(plan.state_epoch, not plan.partitions))
        return Decision(records, plan, self._begun(command.group_id, plan.partitions, now))

    def _state_deleted(self, command: c.StateDeleted, now: float) -> _Decision:
        ended = (c.StateChangeEnded(command.group_id, command.done | command.failed),)
        group = self.groups.get(command.group_id)
        if group is None:
            return Decision((), True, ended)
        pending = PendingGroup(group)
        deleted = share_state.finish_deletion(pending, command)
        return Decision((*pending.records, *self._raised_floor(group.epoch, deleted)), deleted, ended)

    def _new_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id, max(FIRST_EPOCH, self.floor))

    def _raised_floor(self, epoch: int, deleted: bool) -> Iterable[_Record]:
        """Returns the record after which new groups start above the epoch of a deleted group."""
        return (FloorRecord(epoch),) if deleted and epoch > self.floor else ()

    def _group(self, group_id: str) -> ShareGroup:
        validation.check_group_id(group_id)
        return validation.group_or_raise(self.groups.get(group_id), group_id)

    def _administered(self, command: c.DeleteOffsets | c.DeleteGroup, now: float) -> PendingGroup:
        group = self._group(command.group_id)
        validation.check_group_epoch(group, command.group_id, command.group_epoch)
        self._check_no_change(command.group_id, now)
        return PendingGroup(group)

    def _check_no_change(self, group_id: str, now: float) -> None:
        """Two changes of one share-partition could reach the share coordinator in the wrong order."""
        if self._changes.running(group_id, now):
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"Share state of group {group_id} is being changed; try again.",
                metadata={"group_id": group_id},
                retry_after=0.1,
            )

    def _begun(
        self, group_id: str, partitions: Iterable[TopicIdPartition], now: float
    ) -> tuple[SoftChange, ...]:
        broker = self._view.broker
        wait = max(broker.group_share_initialize_retry_interval_ms, broker.offsets_commit_timeout_ms) / 1000
        return c.StateChangeBegun.of(group_id, partitions, now + wait)

    def _seen(self, session: MemberSession, now: float) -> c.SessionObserved:
        # `next_check` returns the same time; each unchanged heartbeat passes here.
        check_at = now + self._timing(session.group_id).chance
        return c.SessionObserved(session, Observation.after_heartbeat(now), check_at)

    def _loaded(self, session: MemberSession, now: float) -> c.SessionObserved:
        silence = self._member(session).silence
        observation = Observation.after_load(silence, now)
        return c.SessionObserved(
            session, observation, observation.next_check(silence, self._timing(session.group_id))
        )

    def _member(self, session: MemberSession) -> Member:
        return self.groups[session.group_id].members[session.member_id]

    def _timing(self, group_id: str) -> Timing:
        config = self._view.group_config(group_id)
        return Timing(config.share_session_timeout_ms / 1000, config.share_heartbeat_interval_ms / 1000)
