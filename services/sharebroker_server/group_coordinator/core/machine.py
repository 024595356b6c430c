"""A shard of the group coordinator as a machine of the coordinator runtime.

Groups change by `apply` only. Besides them the machine keeps clocks: sessions, and changes of share state
that are under way. Decisions set them, the log does not contain them, a shard that is loaded has new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, get_args

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.compaction.live_keys import LiveKeys
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.group_coordinator.core import heartbeat, offsets, share_state
from sharebroker_server.group_coordinator.core.commands import (
    LEAVE,
    AlterOffsets,
    Command,
    DeleteGroup,
    DeleteOffsets,
    DeletePlan,
    DescribeGroup,
    GroupDescription,
    Heartbeat,
    ListGroups,
    ListOffsetPartitions,
    Reply,
    StateDeleted,
    StateInitialized,
    Stay,
)
from sharebroker_server.group_coordinator.core.consumers.commands import (
    Answered,
    CommitInTransaction,
    CommitOffsets,
    ConsumerCommand,
    DescribeConsumers,
    Join,
)
from sharebroker_server.group_coordinator.core.consumers.machine import ConsumerGroups
from sharebroker_server.group_coordinator.core.consumers.offsets import OFFSET, OffsetRecord
from sharebroker_server.group_coordinator.core.consumers.pending import (
    PENDING,
    PendingRecord,
    TransactionEndRecord,
)
from sharebroker_server.group_coordinator.core.model import ShareGroup
from sharebroker_server.group_coordinator.core.pending_group import Draft
from sharebroker_server.group_coordinator.core.records import (
    CurrentRecord,
    FloorRecord,
    GroupRecord,
    Key,
    MemberRecord,
    OfGroup,
    Record,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
)
from sharebroker_server.group_coordinator.core.replay import apply_to
from sharebroker_server.group_coordinator.core.session_clocks import Attempts, Session, Sessions
from sharebroker_server.group_coordinator.core.validation import (
    check_group_epoch,
    check_group_id,
    check_groups,
    known_group,
    no_group,
)
from sharebroker_server.group_coordinator.core.view import ClusterView

FENCES_A_DEADLINE: Final = 100

_Decision = Decision[Record, Reply]
_Stamp = tuple[int, int, int]
Fenced = Callable[[str, str], None]


class GroupCounts:
    """What happened to the groups of a process, for others to read."""

    __slots__ = ("rebalances",)

    def __init__(self) -> None:
        self.rebalances = 0


class GroupMachine:
    """The groups of one shard. `fenced` is told group id and member id of members whose session ran out, when
    that is decided; `answer` gets what members of consumer groups wait for. Share groups that begin, begin
    above the epoch `floor`.
    """

    def __init__(
        self,
        view: ClusterView,
        fenced: Fenced,
        answer: Callable[[int, Answered], None],
        counts: GroupCounts | None = None,
    ) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self.consumers = ConsumerGroups(view, answer)
        self._view = view
        self._fenced = fenced
        self._counts = counts or GroupCounts()
        self._live: LiveKeys[Key] = LiveKeys()
        self._sessions = Sessions()
        self._attempts = Attempts()
        self._assigned_at: dict[str, float] = {}
        self._steady: dict[Session, _Stamp] = {}
        self.floor = 0
        self._deciders: Mapping[type, Callable[[Any, float], _Decision]] = MappingProxyType(
            {
                Heartbeat: self._heartbeat,
                Stay: self._stay,
                StateInitialized: self._state_initialized,
                DescribeGroup: self._describe,
                ListGroups: self._list,
                ListOffsetPartitions: self._offset_partitions,
                AlterOffsets: self._alter,
                DeleteOffsets: self._delete_offsets,
                DeleteGroup: self._delete_group,
                StateDeleted: self._state_deleted,
                **dict.fromkeys(get_args(ConsumerCommand), self._of_consumers),
            }
        )

    def decide(self, command: Command, now: float) -> _Decision:
        """What a command makes of its group. Raises what the commands name."""
        records, reply = self._deciders[type(command)](command, now)
        # Old facts first: what was decided just now must have the last word.
        return Decision((*self._renewed(len(records)), *records), reply)

    def apply(self, record: Record, position: int) -> None:
        """Takes the record at `position` in."""
        if isinstance(record, FloorRecord):
            self.floor = record.epoch
            self._live.put(record.key, position)
        elif isinstance(record, OffsetRecord | PendingRecord | TransactionEndRecord):
            self._live.skip(position)
            for key, counts in self.consumers.apply(record):
                (self._live.put if counts else self._live.drop)(key, position)
        else:
            self._apply(record, position)

    def _apply(self, record: OfGroup, position: int) -> None:
        group = self.groups.get(record.group_id)
        if group is None:
            group = self.groups[record.group_id] = ShareGroup(record.group_id)
        apply_to(group, record)
        group.revision += 1
        if isinstance(record, GroupRecord) and record.epoch is None:
            del self.groups[record.group_id]
            self._drop_group(record, position)
        elif isinstance(record, MemberRecord) and record.profile is None:
            self._drop_member(record, position)
        else:
            self._live.put(record.key, position)
            if isinstance(record, MemberRecord):
                self._sessions.track(Session(record.group_id, record.member_id))

    def next_deadline(self) -> float | None:
        """When a member may have to be fenced, or a consumer group goes on."""
        deadlines = self._sessions.next_deadline(), self.consumers.next_deadline()
        return min((when for when in deadlines if when is not None), default=None)

    def on_deadline(self, now: float) -> Sequence[Record]:
        """Fences members whose session ran out; gives members that came from the log a full session."""
        for session in self._sessions.new():
            self._touch(session, now)
        drafts: dict[str, Draft] = {}
        for session in self._sessions.due(now, FENCES_A_DEADLINE):
            draft = drafts.setdefault(session.group_id, Draft(self.groups[session.group_id]))
            heartbeat.remove(draft, session.member_id)
            self._fenced(*session)
        self._counts.rebalances += sum(draft.raised for draft in drafts.values())
        fenced: list[Record] = [record for draft in drafts.values() for record in draft.records]
        return [*fenced, *self.consumers.on_deadline(now)]

    def trim_before(self) -> int:
        """Records at positions below count for nothing any more."""
        return self._live.trim_before()

    def _of_consumers(self, command: ConsumerCommand, now: float) -> _Decision:
        if isinstance(command, Join):
            self._check_not_shared(command.group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif isinstance(command, CommitOffsets | CommitInTransaction):
            self._check_not_shared(command.member.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif isinstance(command, DescribeConsumers) and command.group_id in self.groups:
            raise no_group(command.group_id, "is not a classic group")
        records, reply = self.consumers.decide(command, now)
        return Decision(records, reply)

    def _heartbeat(self, command: Heartbeat, now: float) -> _Decision:
        group = self.groups.get(command.group_id)
        self._check_shared(command.group_id)
        heartbeat.check(group, command, self._view, len(self.groups))
        draft = Draft(group or ShareGroup(command.group_id, self.floor))
        reply = heartbeat.beat(draft, command, self._circumstances(command.group_id, now))
        self._counts.rebalances += draft.raised
        if draft.group.assignment_epoch != (group.assignment_epoch if group else 0):
            self._assigned_at[command.group_id] = now
        if reply.initialize is not None:
            self._begin(command.group_id, reply.initialize.start_offsets, now)
        if command.member_epoch != LEAVE:
            session = Session(command.group_id, command.member_id)
            self._touch(session, now)
            if not draft.records and draft.group.settled:
                self._steady[session] = self._stamp(draft.group, reply.member_epoch)
        return Decision(tuple(draft.records), reply)

    def _stay(self, command: Stay, now: float) -> _Decision:
        group = self.groups.get(command.group_id)
        session = Session(command.group_id, command.member_id)
        if group is None or self._steady.get(session) != self._stamp(group, command.member_epoch):
            return Decision((), False)
        self._touch(session, now)
        return Decision((), True)

    def _stamp(self, group: ShareGroup, member_epoch: int) -> _Stamp:
        """As long as it is the same, a member whose heartbeat changed nothing gets the same answer again."""
        return member_epoch, group.revision, self._view.revision

    def _circumstances(self, group_id: str, now: float) -> heartbeat.Circumstances:
        interval = self._view.group_config(group_id).share_assignment_interval_ms / 1000
        last = self._assigned_at.get(group_id, float("-inf"))
        return heartbeat.Circumstances(
            self._view, now, self._attempts.running(group_id, now), may_assign=now - last >= interval
        )

    def _state_initialized(self, command: StateInitialized, now: float) -> _Decision:
        self._attempts.end(command.group_id, command.done | command.failed)
        group = self.groups.get(command.group_id)
        if group is None:
            return Decision((), None)
        draft = Draft(group)
        share_state.mark_initialized(draft, command.done)
        return Decision(tuple(draft.records), None)

    def _describe(self, command: DescribeGroup, now: float) -> _Decision:
        check_group_id(command.group_id)
        group = known_group(self.groups.get(command.group_id), command.group_id)
        return Decision(
            (),
            GroupDescription(
                group.group_id, group.state.value, group.epoch, group.assignment_epoch, dict(group.members)
            ),
        )

    def _list(self, _: ListGroups, _now: float) -> _Decision:
        return Decision((), {group.group_id: group.state.value for group in self.groups.values()})

    def _offset_partitions(self, command: ListOffsetPartitions, now: float) -> _Decision:
        group = self.groups.get(command.group_id)
        topics = group.topics if group else {}
        return Decision(
            (), {topic_id: state.initialized for topic_id, state in topics.items() if state.initialized}
        )

    def _alter(self, command: AlterOffsets, now: float) -> _Decision:
        check_group_id(command.group_id)
        self._check_shared(command.group_id)
        group = self.groups.get(command.group_id)
        check_group_epoch(group, command.group_id, command.group_epoch)
        if group is None:
            check_groups(command.group_id, len(self.groups), self._view.broker)
        self._check_idle(command.group_id, now)
        draft = Draft(group or ShareGroup(command.group_id, self.floor))
        plan = offsets.alter(draft, command, self._view, int(now * 1000))
        self._begin(command.group_id, plan.initialize.start_offsets, now)
        return Decision(tuple(draft.records), plan)

    def _delete_offsets(self, command: DeleteOffsets, now: float) -> _Decision:
        draft = self._admin_draft(command, now)
        plan = offsets.forget_topics(draft, command, self._view)
        self._begin(command.group_id, plan.partitions, now)
        return Decision(tuple(draft.records), plan)

    def _delete_group(self, command: DeleteGroup, now: float) -> _Decision:
        if command.group_id not in self.groups and self.consumers.knows(command.group_id):
            return Decision(self.consumers.delete(command.group_id), DeletePlan(frozenset(), 0))
        draft = self._admin_draft(command, now)
        plan = offsets.forget_group(draft, self._view)
        self._begin(command.group_id, plan.partitions, now)
        return Decision((*draft.records, *self._raised_floor(plan.state_epoch, not plan.partitions)), plan)

    def _state_deleted(self, command: StateDeleted, now: float) -> _Decision:
        self._attempts.end(command.group_id, command.done | command.failed)
        group = self.groups.get(command.group_id)
        if group is None:
            return Decision((), True)
        draft = Draft(group)
        gone = offsets.finish_deletion(draft, command)
        return Decision((*draft.records, *self._raised_floor(group.epoch, gone)), gone)

    def _raised_floor(self, epoch: int, gone: bool) -> Iterable[Record]:
        """Where a group of this epoch is gone: whatever begins now begins above it."""
        return (FloorRecord(epoch),) if gone and epoch > self.floor else ()

    def _admin_draft(self, command: DeleteOffsets | DeleteGroup, now: float) -> Draft:
        check_group_id(command.group_id)
        group = known_group(self.groups.get(command.group_id), command.group_id)
        check_group_epoch(group, command.group_id, command.group_epoch)
        self._check_idle(command.group_id, now)
        return Draft(group)

    def _check_shared(self, group_id: str) -> None:
        """Raises GROUP_ID_NOT_FOUND, as Kafka does, for the id of a consumer group."""
        if group_id not in self.groups and self.consumers.knows(group_id):
            raise no_group(group_id, "is not a share group")

    def _check_not_shared(self, group_id: str, code: ErrorCode) -> None:
        if group_id in self.groups:
            raise KafkaError(
                code,
                f"Group {group_id} is a share group; consumers need a group id of their own.",
                metadata={"group_id": group_id},
            )

    def _check_idle(self, group_id: str, now: float) -> None:
        """Two changes of the same share state could reach the share coordinator in the wrong order."""
        if self._attempts.running(group_id, now):
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"Share state of group {group_id} is being changed; try again.",
                metadata={"group_id": group_id},
                retry_after=0.1,
            )

    def _begin(self, group_id: str, partitions: Iterable[TopicIdPartition], now: float) -> None:
        broker = self._view.broker
        wait = max(broker.group_share_initialize_retry_interval_ms, broker.offsets_commit_timeout_ms) / 1000
        self._attempts.begin(group_id, partitions, now + wait)

    def _touch(self, session: Session, now: float) -> None:
        timeout = self._view.group_config(session.group_id).share_session_timeout_ms / 1000
        self._sessions.touch(session, now + timeout)

    def _drop_group(self, record: GroupRecord, position: int) -> None:
        self._assigned_at.pop(record.group_id, None)
        for gone in (record, StateRecord(record.group_id, {}), TargetEpochRecord(record.group_id, 0)):
            self._live.drop(gone.key, position)

    def _drop_member(self, record: MemberRecord, position: int) -> None:
        group_id, member_id = record.group_id, record.member_id
        self._sessions.drop(Session(group_id, member_id))
        self._steady.pop(Session(group_id, member_id), None)
        for gone in (
            record,
            TargetRecord(group_id, member_id, {}),
            CurrentRecord(group_id, member_id, 0, 0, {}),
        ):
            self._live.drop(gone.key, position)

    def _renewed(self, written: int) -> list[Record]:
        return [self._record(*key) for key in self._live.stale(written)]

    def _record(self, kind: str, group_id: str, member_id: str) -> Record:
        if kind == "floor":
            return FloorRecord(self.floor)
        if kind == OFFSET:
            return self.consumers.offsets.record(group_id, member_id)
        if kind == PENDING:
            return self.consumers.pending.record(group_id, member_id)
        group = self.groups[group_id]
        if kind == "group":
            return GroupRecord(group_id, group.epoch, group.metadata_hash, group.since_epoch)
        if kind == "target epoch":
            return TargetEpochRecord(group_id, group.assignment_epoch)
        if kind == "state":
            return StateRecord(group_id, group.topics)
        member = group.members[member_id]
        if kind == "member":
            return MemberRecord(group_id, member_id, member.profile)
        if kind == "target":
            return TargetRecord(group_id, member_id, member.target)
        return CurrentRecord(group_id, member_id, member.epoch, member.previous_epoch, member.assigned)
