"""The consumer groups of a shard, and their committed offsets.

Theory of operation
-------------------

Two kinds of state meet here. Committed offsets, and offsets pending in transactions, are durable: records
change them. The groups themselves, with members and generations, are soft state (`group.py`): decisions
replace them, and a load of the shard starts without any.

* A group exists while it has members, promised member ids, committed offsets or pending offsets. A group
  with offsets only is listed as Empty.
* A decision that changes a group works on a copy, collected in an `Edit`. The accepted decision replaces
  the group and the deadlines; deferred replies are effects, so a member receives its reply only when all
  records accepted before are durable.
* Some errors come with soft changes: MEMBER_ID_REQUIRED promises a member id, and a heartbeat during a
  rebalance extends the session although it receives REBALANCE_IN_PROGRESS. These errors are the reply of
  the decision; all other errors are raised and change nothing.
* Offsets expire. The deadline of the session `_EXPIRY_CHECK` is set while there are offsets; each check
  deletes a limited number of offsets that are older than `offsets.retention.minutes` in groups without
  members, or whose topic was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import Decision, SoftChange
from sharebroker_server.group_coordinator.core import validation
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.group_coordinator.core.consumer_groups.group import (
    ConsumerGroup,
    ConsumerGroupState,
    Edit,
    GroupReplaced,
)
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import (
    CommittedOffsets,
    OffsetRecord,
    PendingOffsets,
    PendingRecord,
    Place,
    TransactionEndRecord,
    value_of,
)
from sharebroker_server.group_coordinator.core.deadlines import Deadlines, DeadlineSet, MemberSession
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage

ConsumerRecord = OffsetRecord | PendingRecord | TransactionEndRecord
_Decision = Decision[ConsumerRecord, c.ConsumerReply]

_EXPIRY_CHECK: Final = MemberSession("", "")
"""The key of the deadline at which old offsets expire; no group has an empty id."""
_DUE_PER_DEADLINE: Final = 200

CONSUMER: Final = "consumer"
"""The protocol type of consumers; assumed for a group of which only offsets are known."""


class ConsumerGroups:
    """`offsets` and `pending` change by `apply`, groups and deadlines by `apply_soft`."""

    def __init__(self, view: MetadataImage) -> None:
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self._view = view
        self._groups: dict[str, ConsumerGroup] = {}
        self._deadlines: Deadlines[MemberSession] = Deadlines()
        self._deciders: Mapping[type, Callable[[Any, float], _Decision]] = {
            c.Join: self._join,
            c.Sync: self._sync,
            c.ConsumerHeartbeat: self._heartbeat,
            c.Leave: self._leave,
            c.CommitOffsets: self._commit,
            c.CommitInTransaction: self._commit_in_transaction,
            c.CompleteTransaction: self._complete,
            c.FetchOffsets: self._fetch,
            c.ForgetOffsets: self._forget,
            c.DescribeConsumers: self._describe,
            c.ListConsumers: self._list,
        }

    def exists(self, group_id: str) -> bool:
        """Returns whether there is a consumer group with this id."""
        return group_id in self._groups or bool(self.offsets.of(group_id) or self.pending.of(group_id))

    def decide(self, command: c.ConsumerCommand, now: float) -> _Decision:
        """Returns the decision about a command. Raises the errors that the commands name."""
        return self._deciders[type(command)](command, now)

    def apply(self, record: ConsumerRecord) -> list[OffsetRecord | PendingRecord]:
        """Applies a record; returns what it states about single offsets, some of it as tombstones."""
        facts: list[OffsetRecord | PendingRecord] = []
        if isinstance(record, PendingRecord):
            self.pending.apply(record)
            facts.append(record)
        elif isinstance(record, OffsetRecord):
            facts.append(record)
        else:
            facts += self.pending.end(record)
            facts += (OffsetRecord(*outcome.place, outcome.committed) for outcome in record.outcomes)
        for fact in facts:
            if isinstance(fact, OffsetRecord):
                self.offsets.apply(fact)
            value = value_of(fact)
            if value is not None and _EXPIRY_CHECK not in self._deadlines:
                self._deadlines.set(_EXPIRY_CHECK, self._next_expiry_check(value.at_ms / 1000))
        return facts

    def apply_soft(self, change: SoftChange) -> None:
        """Applies a soft change of an accepted decision."""
        if isinstance(change, DeadlineSet):
            self._deadlines.apply_soft(change)
        elif isinstance(change, GroupReplaced):
            if change.group is None:
                self._groups.pop(change.group_id, None)
            else:
                self._groups[change.group_id] = change.group
        else:
            raise TypeError(f"not a soft change of consumer groups: {change!r}")

    def next_deadline(self) -> float | None:
        """Returns when a session times out, a round of a rebalance ends, or offsets expire."""
        return self._deadlines.next_deadline()

    def on_deadline(self, now: float) -> Decision[ConsumerRecord, None]:
        """Removes members whose session timed out, ends rounds of rebalances, deletes expired offsets."""
        edit, records = Edit(), list[ConsumerRecord]()
        due = self._deadlines.due(now, _DUE_PER_DEADLINE)
        edit.deadlines.update(dict.fromkeys(due))
        for key in due:
            if key == _EXPIRY_CHECK:
                records = self._expired(now)
                edit.deadlines[key] = self._next_expiry_check(now) if self._groups_with_offsets() else None
            elif key.group_id in self._groups:
                group = edit.of(self._groups[key.group_id])
                if group.size and key.member_id:
                    group.remove(key.member_id, now)
                elif group.size:
                    group.overdue(now)
        return Decision(tuple(records), None, edit.soft, edit.effects)

    def delete(self, group_id: str) -> tuple[ConsumerRecord, ...]:
        """Returns the records that delete a group's offsets. Raises NON_EMPTY_GROUP."""
        self._check_empty(group_id)
        return tuple(self._forgotten(group_id, self._partitions(group_id)))

    # Membership

    def _join(self, command: c.Join, now: float) -> _Decision:
        validation.check_group_id(command.group_id)
        self._check_session_timeout(command)
        edit = Edit()
        group = edit.of(self._groups.get(command.group_id) or self._new_group(command.group_id))
        member_id = self._admitted_id(group, command)
        group.check_protocols(command)
        reply: c.ConsumerReply
        if member_id is None:
            group.promise(command.fresh_id, now + command.session_timeout)
            reply = KafkaError(ErrorCode.MEMBER_ID_REQUIRED, metadata={"member_id": command.fresh_id})
        else:
            reply = group.join(command.with_rebalance_timeout(), member_id, now)
        return Decision((), reply, edit.soft, edit.effects)

    def _admitted_id(self, group: ConsumerGroup, command: c.Join) -> str | None:
        """Returns the member id to join with; None if the client must join again with its new id.

        Raises UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED.
        """
        if command.member_id in group.promised:
            return command.member_id
        if command.member_id:
            return group.member(command.member_id, command.instance_id).member_id
        if group.static_member(command.instance_id) is None:
            self._check_group_size(group)
        if command.instance_id is not None or not command.must_be_known:
            return command.fresh_id
        return None

    def _sync(self, command: c.Sync, now: float) -> _Decision:
        edit = Edit()
        reply = edit.of(self._group(command.member.group_id)).sync(command, now)
        return Decision((), reply, edit.soft, edit.effects)

    def _heartbeat(self, command: c.ConsumerHeartbeat, now: float) -> _Decision:
        group = self._group(command.member.group_id)
        session = group.session(group.identified(command.member), now)
        return Decision(
            (), group.rebalancing() if group.state is ConsumerGroupState.PREPARING else None, session
        )

    def _leave(self, command: c.Leave, now: float) -> _Decision:
        edit = Edit()
        group = edit.of(self._group(command.group_id))
        outcome = tuple(_leave(group, leaver, now) for leaver in command.members)
        return Decision((), outcome, edit.soft, edit.effects)

    # Offsets

    def _commit(self, command: c.CommitOffsets, now: float) -> _Decision:
        identity = command.member
        validation.check_group_id(identity.group_id)
        group = self._groups.get(identity.group_id)
        session: tuple[SoftChange, ...] = ()
        if group is None:
            self._check_no_member(identity)
        elif (member := group.committing(identity)) is not None:
            session = group.session(member, now)
        accepted, rejected = self._sized(command.offsets, now)
        offsets = (OffsetRecord(identity.group_id, key, offset) for key, offset in accepted.items())
        # After the offset: until the offset is committed, the pending ones are not outdated.
        dropped = (record for key in accepted for record in self.pending.drops(Place(identity.group_id, key)))
        return Decision((*offsets, *dropped), rejected, session)

    def _commit_in_transaction(self, command: c.CommitInTransaction, now: float) -> _Decision:
        identity = command.member
        validation.check_group_id(identity.group_id)
        self.pending.check_continues(command)
        group = self._groups.get(identity.group_id)
        if group is not None:
            group.check_transactional_commit(identity)
        else:
            self._check_no_member(identity)
        accepted, rejected = self._sized(command.offsets, now)
        return Decision(self.pending.committed(command, accepted), rejected)

    def _complete(self, command: c.CompleteTransaction, _: float) -> _Decision:
        record = self.pending.ended(command)
        if record is None:
            return Decision((), None)
        # Each offset also gets a record of its own, for readers of the log as __consumer_offsets.
        offsets = (OffsetRecord(*outcome.place, outcome.committed) for outcome in record.outcomes)
        return Decision((record, *offsets), None)

    def _fetch(self, command: c.FetchOffsets, _: float) -> _Decision:
        group_id = command.group_id
        return Decision((), c.GroupOffsets(dict(self.offsets.of(group_id)), self.pending.of(group_id)))

    def _forget(self, command: c.ForgetOffsets, _: float) -> _Decision:
        self._check_exists(command.group_id)
        self._check_empty(command.group_id)
        partitions = command.partitions & self._partitions(command.group_id)
        return Decision(tuple(self._forgotten(command.group_id, partitions)), None)

    def _describe(self, command: c.DescribeConsumers, _: float) -> _Decision:
        self._check_exists(command.group_id)
        group = self._groups.get(command.group_id)
        if group is None:
            return Decision((), c.ConsumersDescription(ConsumerGroupState.EMPTY.value, CONSUMER, "", ()))
        stable = group.state is ConsumerGroupState.STABLE
        members = tuple(
            c.DescribedConsumer(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol),
                member.assignment if stable else b"",
            )
            for member in group.members.values()
        )
        protocol = group.protocol if stable else ""
        return Decision((), c.ConsumersDescription(group.state.value, group.protocol_type, protocol, members))

    def _list(self, _: c.ListConsumers, _now: float) -> _Decision:
        empty = dict.fromkeys(self._groups_with_offsets(), (ConsumerGroupState.EMPTY.value, CONSUMER))
        live = {
            group_id: (group.state.value, group.protocol_type or CONSUMER)
            for group_id, group in self._groups.items()
        }
        return Decision((), {**empty, **live})

    # Helpers

    def _new_group(self, group_id: str) -> ConsumerGroup:
        self._check_group_count(group_id)
        return ConsumerGroup(group_id, self._view.broker.group_initial_rebalance_delay_ms / 1000)

    def _group(self, group_id: str) -> ConsumerGroup:
        """Returns the group with members. Raises UNKNOWN_MEMBER_ID."""
        validation.check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise validation.group_error(
                ErrorCode.UNKNOWN_MEMBER_ID, group_id, f"Group {group_id} has no members."
            )
        return group

    def _groups_with_offsets(self) -> set[str]:
        return {*self.offsets, *self.pending}

    def _partitions(self, group_id: str) -> frozenset[TopicIdPartition]:
        """Returns the partitions with a committed or a pending offset."""
        return self.pending.of(group_id).union(self.offsets.of(group_id))

    def _forgotten(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Iterable[ConsumerRecord]:
        committed = self.offsets.of(group_id)
        for partition in sorted(partitions):
            if partition in committed:
                yield OffsetRecord(group_id, partition, None)
            yield from self.pending.drops(Place(group_id, partition))

    def _sized(
        self, offsets: Mapping[TopicIdPartition, c.Committed], now: float
    ) -> tuple[dict[TopicIdPartition, c.Committed], dict[TopicIdPartition, KafkaError]]:
        """Returns the offsets as committed now, and an error for each whose metadata is too large."""
        limit = self._view.broker.offset_metadata_max_bytes
        rejected = {
            key: KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            for key, offset in offsets.items()
            if len(offset.metadata.encode()) > limit
        }
        return {key: each.stamped(now) for key, each in offsets.items() if key not in rejected}, rejected

    def _check_no_member(self, identity: c.MemberIdentity) -> None:
        """A group without members accepts offsets of clients that are no members.

        Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID.
        """
        if identity.generation >= 0:
            self._check_exists(identity.group_id)
            raise validation.unknown_member(identity.group_id, identity.member_id)
        self._check_group_count(identity.group_id)

    def _check_exists(self, group_id: str) -> None:
        validation.check_group_id(group_id)
        if not self.exists(group_id):
            raise validation.group_not_found(group_id)

    def _check_empty(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        validation.check_empty(group_id, group.members if group else ())

    def _check_session_timeout(self, command: c.Join) -> None:
        broker = self._view.broker
        least, most = broker.group_min_session_timeout_ms, broker.group_max_session_timeout_ms
        if not least <= command.session_timeout * 1000 <= most:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"The session timeout is {command.session_timeout:g} s; it may be {least} to {most} ms.",
            )

    def _check_group_size(self, group: ConsumerGroup) -> None:
        limit = self._view.broker.group_max_size
        if group.size >= limit:
            raise validation.group_error(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                group.group_id,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _check_group_count(self, group_id: str) -> None:
        if not self.exists(group_id):
            groups = len({*self._groups, *self._groups_with_offsets()})
            validation.check_group_count(group_id, groups, self._view.broker, CONSUMER)

    def _next_expiry_check(self, now: float) -> float:
        return now + self._view.broker.offsets_retention_check_interval_ms / 1000

    def _expired(self, now: float) -> list[ConsumerRecord]:
        """Returns records that delete expired offsets, a limited number at a time."""
        retention = self._view.broker.offsets_retention_minutes * 60
        return list(islice(self._all_expired(int((now - retention) * 1000)), _DUE_PER_DEADLINE))

    def _all_expired(self, before_ms: int) -> Iterable[ConsumerRecord]:
        for group_id in self._groups_with_offsets():
            committed, pending = self.offsets.of(group_id), self.pending.of(group_id)
            expired = {key for key in self._partitions(group_id) if self._view.is_deleted(key.topic_id)}
            if group_id not in self._groups:
                expired |= {
                    key
                    for key, offset in committed.items()
                    if offset.at_ms < before_ms and key not in pending
                }
            yield from self._forgotten(group_id, expired)


def _leave(group: ConsumerGroup, leaver: c.Leaver, now: float) -> KafkaError | None:
    if leaver.member_id in group.promised:
        group.remove(leaver.member_id, now)
        return None
    try:
        member_id = leaver.member_id or group.static_member(leaver.instance_id) or ""
        group.remove(group.member(member_id, leaver.instance_id).member_id, now)
    except KafkaError as error:
        return error
    return None
