"""A shard of the group coordinator as a machine of the coordinator runtime.

It routes commands to the share groups (`share_groups/machine.py`) and the consumer groups
(`consumer_groups/machine.py`) of the shard, which document their theory of operation. A group id belongs to
at most one of the two kinds.

Every record replaces the record before it with the same key, so the log can be trimmed up to the oldest
record that is the latest of its key. `LiveKeys` tracks these positions; each decision with records also
rewrites a few of the oldest ones, which keeps the log short without a timer. The rewritten records, taken
from `_latest`, precede the records of the decision, because they state what was true before it.
"""

from __future__ import annotations

from typing import get_args

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.coordinator_runtime.machine import Decision, SoftChange
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitInTransaction,
    CommitOffsets,
    ConsumerCommand,
    ConsumerReply,
    DescribeConsumers,
    Join,
)
from sharebroker_server.group_coordinator.core.consumer_groups.group import GroupReplaced
from sharebroker_server.group_coordinator.core.consumer_groups.machine import ConsumerGroups, ConsumerRecord
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import (
    OffsetRecord,
    PendingRecord,
    TransactionEndRecord,
    value_of,
)
from sharebroker_server.group_coordinator.core.deadlines import DeadlineSet
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    AlterOffsets,
    DeleteGroup,
    DeletePlan,
    Heartbeat,
    ShareGroupCommand,
    ShareGroupReply,
)
from sharebroker_server.group_coordinator.core.share_groups.group import (
    CurrentRecord,
    FloorRecord,
    GroupRecord,
    Key,
    MemberRecord,
    ShareGroupRecord,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
)
from sharebroker_server.group_coordinator.core.share_groups.machine import ShareGroups
from sharebroker_server.group_coordinator.core.validation import check_group_id, group_error, group_not_found
from sharebroker_server.live_keys import LiveKeys

Command = ShareGroupCommand | ConsumerCommand
Reply = ShareGroupReply | ConsumerReply
Record = ShareGroupRecord | FloorRecord | ConsumerRecord

_CONSUMER_COMMANDS = frozenset(get_args(ConsumerCommand))
_Keyed = ShareGroupRecord | FloorRecord | OffsetRecord | PendingRecord
_OF_GROUP = (GroupRecord.kind, StateRecord.kind, TargetEpochRecord.kind)
_OF_MEMBER = (MemberRecord.kind, TargetRecord.kind, CurrentRecord.kind)
_CREATES_SHARE_GROUP = (Heartbeat, AlterOffsets)


class GroupMachine:
    """The groups of one shard."""

    def __init__(self, view: MetadataImage) -> None:
        self.shares = ShareGroups(view)
        self.consumers = ConsumerGroups(view)
        self._live: LiveKeys[Key] = LiveKeys()
        self._latest: dict[Key, _Keyed] = {}

    def decide(self, command: Command, now: float) -> Decision[Record, Reply]:
        """Returns the decision about a command. Raises the errors that the commands name."""
        decision = self._decide(command, now)
        renewed = [self._latest[key] for key in self._live.stale(len(decision.records))]
        return decision._replace(records=(*renewed, *decision.records)) if renewed else decision

    def apply(self, record: Record, position: int) -> None:
        """Applies the record at `position`."""
        if isinstance(record, OffsetRecord | PendingRecord | TransactionEndRecord):
            self._live.skip(position)
            for fact in self.consumers.apply(record):
                self._track(fact, position, deleted=(fact.key,) if value_of(fact) is None else ())
            return
        deleted: tuple[Key, ...] = ()
        match record:
            case FloorRecord(epoch):
                self.shares.floor = epoch
            case GroupRecord(group_id, None):
                deleted = tuple((kind, group_id, "") for kind in _OF_GROUP)
            case MemberRecord(group_id, member_id, None):
                deleted = tuple((kind, group_id, member_id) for kind in _OF_MEMBER)
        if not isinstance(record, FloorRecord):
            self.shares.apply(record)
        self._track(record, position, deleted)

    def apply_soft(self, change: SoftChange) -> None:
        """Applies a soft change of an accepted decision."""
        if isinstance(change, DeadlineSet | GroupReplaced):
            self.consumers.apply_soft(change)
        else:
            self.shares.apply_soft(change)

    def next_deadline(self) -> float | None:
        """Returns when a member may have to be fenced, or a consumer group's rebalance ends."""
        deadlines = self.shares.next_deadline(), self.consumers.next_deadline()
        return min((when for when in deadlines if when is not None), default=None)

    def on_deadline(self, now: float) -> Decision[Record, None]:
        """Returns what is due in the groups of both kinds."""
        shares, consumers = self.shares.on_deadline(now), self.consumers.on_deadline(now)
        return Decision(
            (*shares.records, *consumers.records),
            None,
            (*shares.soft, *consumers.soft),
            (*shares.effects, *consumers.effects),
        )

    def trim_before(self) -> int:
        """Returns the position below which records are redundant."""
        return self._live.trim_before()

    def _decide(self, command: Command, now: float) -> Decision[Record, Reply]:
        if type(command) in _CONSUMER_COMMANDS:
            self._check_consumer_group(command)  # type: ignore[arg-type]  # the line above
            return self.consumers.decide(command, now)  # type: ignore[arg-type,return-value]  # as above
        if isinstance(command, DeleteGroup) and self._is_consumer_group(command.group_id):
            return Decision(self.consumers.delete(command.group_id), DeletePlan(frozenset(), 0))
        if isinstance(command, AlterOffsets):
            check_group_id(command.group_id)
        if isinstance(command, _CREATES_SHARE_GROUP) and self._is_consumer_group(command.group_id):
            # Kafka's error code for a group of another kind.
            raise group_not_found(command.group_id, "is not a share group")
        return self.shares.decide(command, now)  # type: ignore[arg-type,return-value]  # the rest is theirs

    def _is_consumer_group(self, group_id: str) -> bool:
        return group_id not in self.shares.groups and self.consumers.exists(group_id)

    def _check_consumer_group(self, command: ConsumerCommand) -> None:
        if isinstance(command, Join):
            self._check_no_share_group(command.group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif isinstance(command, CommitOffsets | CommitInTransaction):
            self._check_no_share_group(command.member.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif isinstance(command, DescribeConsumers) and command.group_id in self.shares.groups:
            raise group_not_found(command.group_id, "is not a classic group")

    def _check_no_share_group(self, group_id: str, code: ErrorCode) -> None:
        if group_id in self.shares.groups:
            raise group_error(
                code, group_id, f"Group {group_id} is a share group; consumers need a group id of their own."
            )

    def _track(self, record: _Keyed, position: int, deleted: tuple[Key, ...]) -> None:
        """Tracks the latest record of each key; the deletion of a group or member deletes all its keys."""
        key = record.key
        self._live.put(key, position)
        self._latest[key] = record
        for key in deleted:
            self._live.drop(key, position)
            self._latest.pop(key, None)
