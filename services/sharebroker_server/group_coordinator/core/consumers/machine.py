"""The consumer groups of a shard: commands to the group they are about, deadlines, and offsets to records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.group_coordinator.core.consumers.commands import (
    Answered,
    CommitInTransaction,
    CommitOffsets,
    Committed,
    CompleteTransaction,
    ConsumerCommand,
    ConsumerReply,
    ConsumersDescription,
    DescribeConsumers,
    DescribedConsumer,
    FetchOffsets,
    ForgetOffsets,
    Join,
    KeptOffsets,
    Leave,
    Leaver,
    ListConsumers,
    MemberOf,
    StayMember,
    Sync,
)
from sharebroker_server.group_coordinator.core.consumers.group import Around, ConsumerGroup, State
from sharebroker_server.group_coordinator.core.consumers.offsets import CommittedOffsets, OffsetRecord
from sharebroker_server.group_coordinator.core.consumers.pending import (
    PendingOffsets,
    PendingRecord,
    Place,
    TransactionEndRecord,
)
from sharebroker_server.group_coordinator.core.session_clocks import Deadlines, Session
from sharebroker_server.group_coordinator.core.validation import (
    check_empty,
    check_group_id,
    check_groups,
    no_group,
)
from sharebroker_server.group_coordinator.core.view import ClusterView

ConsumerRecord = OffsetRecord | PendingRecord | TransactionEndRecord
_Decision = Decision[ConsumerRecord, ConsumerReply]

_LOOK_THROUGH: Final = Session("", "")
"""When offsets are looked through for those that are too old; no group has an empty id."""
_MOST_AT_ONCE: Final = 200

CONSUMER: Final = "consumer"
"""The protocol type of consumers: of a group without members it is the likely one, only offsets are known."""


class ConsumerGroups:
    """Groups live in memory; `offsets` and what is `pending` come from the log.

    `answer` gets what comes under a ticket.
    """

    def __init__(self, view: ClusterView, answer: Callable[[int, Answered], None]) -> None:
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self._view = view
        self._answer = answer
        self._groups: dict[str, ConsumerGroup] = {}
        self._clocks: Deadlines[Session] = Deadlines()
        self._looks_through = False
        self._deciders: Mapping[type, Callable[[Any, float], _Decision]] = MappingProxyType(
            {
                Join: self._join,
                Sync: self._sync,
                StayMember: self._stay,
                Leave: self._leave,
                CommitOffsets: self._commit,
                CommitInTransaction: self._commit_in_transaction,
                CompleteTransaction: self._complete,
                FetchOffsets: self._fetch,
                ForgetOffsets: self._forget,
                DescribeConsumers: self._describe,
                ListConsumers: self._list,
            }
        )

    def knows(self, group_id: str) -> bool:
        """Whether there is a consumer group of this id."""
        return group_id in self._groups or bool(self.offsets.of(group_id) or self.pending.of(group_id))

    def decide(self, command: ConsumerCommand, now: float) -> _Decision:
        """See `GroupMachine.decide`."""
        return self._deciders[type(command)](command, now)

    def apply(self, record: ConsumerRecord) -> list[tuple[tuple[str, str, str], bool]]:
        """Takes a record in; of which keys it is the latest fact, and whether that counts."""
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
        values = [_value(fact) for fact in facts]
        for value in values:
            if value is not None and not self._looks_through:
                self._look_through_after(value.at_ms / 1000)
        return [(fact.key, value is not None) for fact, value in zip(facts, values, strict=True)]

    def next_deadline(self) -> float | None:
        """When a member may be gone, or offsets are to be looked through."""
        return self._clocks.next_deadline()

    def on_deadline(self, now: float) -> list[ConsumerRecord]:
        """Removes members that were silent; gives offsets up that are too old."""
        records: list[ConsumerRecord] = []
        for due in self._clocks.due(now, _MOST_AT_ONCE):
            group = self._groups.get(due.group_id)
            if due == _LOOK_THROUGH:
                records = self._looked_through(now)
            elif group is not None and due.member_id:
                group.remove(due.member_id, now)
            elif group is not None:
                group.overdue(now)
            self._tidy(due.group_id)
        return records

    def delete(self, group_id: str) -> tuple[ConsumerRecord, ...]:
        """Forgets a group and its offsets. Raises NON_EMPTY_GROUP."""
        self._check_empty(group_id)
        return tuple(self._forgotten(group_id, self._partitions(group_id)))

    def _join(self, asked: Join, now: float) -> _Decision:
        check_group_id(asked.group_id)
        self._check_session_timeout(asked)
        group = self._groups.get(asked.group_id) or self._begun(asked.group_id)
        try:
            member_id = self._admitted(group, asked, now)
            group.check_protocols(asked)
            return Decision((), group.join(_patient(asked), member_id, now))
        finally:
            self._tidy(asked.group_id)

    def _admitted(self, group: ConsumerGroup, asked: Join, now: float) -> str:
        """The id to join with. Raises MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED."""
        if asked.member_id in group.promised:
            return asked.member_id
        if asked.member_id:
            return group.member(asked.member_id, asked.instance_id).member_id
        if group.replaced(asked.instance_id) is None:
            self._check_room(group)
        if asked.instance_id is not None or not asked.must_be_known:
            return asked.fresh_id
        group.check_protocols(asked)
        group.promise(asked.fresh_id, now + asked.session_timeout)
        raise KafkaError(ErrorCode.MEMBER_ID_REQUIRED, metadata={"member_id": asked.fresh_id})

    def _sync(self, asked: Sync, now: float) -> _Decision:
        return Decision((), self._known(asked.member.group_id).sync(asked, now))

    def _stay(self, asked: StayMember, now: float) -> _Decision:
        self._known(asked.member.group_id).stay(asked.member, now)
        return Decision((), None)

    def _leave(self, asked: Leave, now: float) -> _Decision:
        group = self._known(asked.group_id)
        outcome = tuple(_left(group, one, now) for one in asked.members)
        self._tidy(asked.group_id)
        return Decision((), outcome)

    def _commit(self, asked: CommitOffsets, now: float) -> _Decision:
        who = asked.member
        check_group_id(who.group_id)
        group = self._groups.get(who.group_id)
        if group is not None:
            group.may_commit(who, now)
        else:
            self._check_nobodys(who)
        refused = self._too_long(asked.offsets)
        kept = {some: one for some, one in asked.offsets.items() if some not in refused}
        offsets = (OffsetRecord(who.group_id, some, _at(one, now)) for some, one in kept.items())
        # Behind the offset: until that is there, what is pending is not out of date.
        dropped = (record for some in kept for record in self.pending.drops(Place(who.group_id, some)))
        return Decision((*offsets, *dropped), refused)

    def _commit_in_transaction(self, asked: CommitInTransaction, now: float) -> _Decision:
        who = asked.member
        check_group_id(who.group_id)
        self.pending.check_goes_on(asked)
        group = self._groups.get(who.group_id)
        if group is not None:
            group.may_commit_in_transaction(who)
        else:
            self._check_nobodys(who)
        refused = self._too_long(asked.offsets)
        kept = {some: _at(one, now) for some, one in asked.offsets.items() if some not in refused}
        return Decision(self.pending.committed(asked, kept), refused)

    def _complete(self, asked: CompleteTransaction, _: float) -> _Decision:
        record = self.pending.ended(asked)
        if record is None:
            return Decision((), None)
        # Once more each by itself: who reads the log as Kafka's topic finds it where it was committed.
        offsets = (OffsetRecord(*outcome.place, outcome.committed) for outcome in record.outcomes)
        return Decision((record, *offsets), None)

    def _fetch(self, asked: FetchOffsets, _: float) -> _Decision:
        group_id = asked.group_id
        return Decision((), KeptOffsets(dict(self.offsets.of(group_id)), self.pending.of(group_id)))

    def _forget(self, asked: ForgetOffsets, _: float) -> _Decision:
        self._check_known(asked.group_id)
        self._check_empty(asked.group_id)
        partitions = asked.partitions & self._partitions(asked.group_id)
        return Decision(tuple(self._forgotten(asked.group_id, partitions)), None)

    def _describe(self, asked: DescribeConsumers, _: float) -> _Decision:
        self._check_known(asked.group_id)
        group = self._groups.get(asked.group_id)
        if group is None:
            return Decision((), ConsumersDescription(State.EMPTY.value, CONSUMER, "", ()))
        stable = group.state is State.STABLE
        members = tuple(
            DescribedConsumer(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.metadata(group.protocol),
                one.assignment if stable else b"",
            )
            for one in group.members.values()
        )
        return Decision(
            (),
            ConsumersDescription(
                group.state.value, group.protocol_type, group.protocol if stable else "", members
            ),
        )

    def _list(self, _: ListConsumers, _now: float) -> _Decision:
        empty = dict.fromkeys(self._idle(), (State.EMPTY.value, CONSUMER))
        live = {name: (one.state.value, one.protocol_type or CONSUMER) for name, one in self._groups.items()}
        return Decision((), {**empty, **live})

    def _begun(self, group_id: str) -> ConsumerGroup:
        self._check_groups(group_id)
        around = Around(self._clocks, self._answer, self._view.broker.group_initial_rebalance_delay_ms / 1000)
        group = self._groups[group_id] = ConsumerGroup(group_id, around)
        return group

    def _known(self, group_id: str) -> ConsumerGroup:
        check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Group {group_id} has no members.",
                metadata={"group_id": group_id},
            )
        return group

    def _idle(self) -> set[str]:
        """Groups of which the log tells."""
        return {*self.offsets, *self.pending}

    def _partitions(self, group_id: str) -> frozenset[TopicIdPartition]:
        """Partitions of which a group has an offset, or may get one."""
        return self.pending.of(group_id).union(self.offsets.of(group_id))

    def _forgotten(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Iterable[ConsumerRecord]:
        kept = self.offsets.of(group_id)
        for some in sorted(partitions):
            if some in kept:
                yield OffsetRecord(group_id, some, None)
            yield from self.pending.drops(Place(group_id, some))

    def _too_long(self, offsets: Mapping[TopicIdPartition, Committed]) -> dict[TopicIdPartition, KafkaError]:
        most = self._view.broker.offset_metadata_max_bytes
        return {
            some: KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            for some, committed in offsets.items()
            if len(committed.metadata.encode()) > most
        }

    def _check_nobodys(self, who: MemberOf) -> None:
        """A group without members takes offsets of nobody's member. Raises ILLEGAL_GENERATION."""
        if who.generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"Group {who.group_id} has no generation.")
        self._check_groups(who.group_id)

    def _check_known(self, group_id: str) -> None:
        check_group_id(group_id)
        if not self.knows(group_id):
            raise no_group(group_id)

    def _check_empty(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        check_empty(group_id, group.members if group else ())

    def _check_session_timeout(self, asked: Join) -> None:
        broker = self._view.broker
        least, most = broker.group_min_session_timeout_ms, broker.group_max_session_timeout_ms
        if not least <= asked.session_timeout * 1000 <= most:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"The session timeout is {asked.session_timeout:g} s; it may be {least} to {most} ms.",
            )

    def _check_room(self, group: ConsumerGroup) -> None:
        most = self._view.broker.group_max_size
        if group.size >= most:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
                metadata={"group_id": group.group_id},
            )

    def _check_groups(self, group_id: str) -> None:
        if not self.knows(group_id):
            check_groups(group_id, len({*self._groups, *self._idle()}), self._view.broker, CONSUMER)

    def _tidy(self, group_id: str) -> None:
        """A group with neither members nor anybody who is to come is no group."""
        group = self._groups.get(group_id)
        if group is not None and not group.size:
            del self._groups[group_id]

    def _look_through_after(self, now: float) -> None:
        self._looks_through = True
        interval = self._view.broker.offsets_retention_check_interval_ms / 1000
        self._clocks.touch(_LOOK_THROUGH, now + interval)

    def _looked_through(self, now: float) -> list[ConsumerRecord]:
        """Offsets that are to be forgotten, so many at a time."""
        self._looks_through = False
        if self._idle():
            self._look_through_after(now)
        retention = self._view.broker.offsets_retention_minutes * 60
        return list(islice(self._outlived(int((now - retention) * 1000)), _MOST_AT_ONCE))

    def _outlived(self, before_ms: int) -> Iterable[ConsumerRecord]:
        for group_id in self._idle():
            kept, pending = self.offsets.of(group_id), self.pending.of(group_id)
            gone = {some for some in self._partitions(group_id) if self._view.is_deleted(some.topic_id)}
            if group_id not in self._groups:
                gone |= {some for some, one in kept.items() if one.at_ms < before_ms and some not in pending}
            yield from self._forgotten(group_id, gone)


def _at(committed: Committed, now: float) -> Committed:
    return replace(committed, at_ms=int(now * 1000))


def _value(fact: OffsetRecord | PendingRecord) -> Committed | None:
    if isinstance(fact, OffsetRecord):
        return fact.committed
    return fact.pending.committed if fact.pending is not None else None


def _patient(asked: Join) -> Join:
    """The old form has no rebalance timeout."""
    if asked.rebalance_timeout > 0:
        return asked
    return replace(asked, rebalance_timeout=asked.session_timeout)


def _left(group: ConsumerGroup, leaver: Leaver, now: float) -> KafkaError | None:
    if leaver.member_id in group.promised:
        group.remove(leaver.member_id, now)
        return None
    try:
        named = leaver.member_id or group.replaced(leaver.instance_id) or ""
        group.remove(group.member(named, leaver.instance_id).member_id, now)
    except KafkaError as error:
        return error
    return None
