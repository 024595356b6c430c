"""A shard of the transaction coordinator as a machine of the coordinator runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.compaction.live_keys import LiveKeys
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.group_coordinator.core.session_clocks import Deadlines
from sharebroker_server.group_coordinator.core.transactions import rules, staging
from sharebroker_server.group_coordinator.core.transactions.commands import (
    AddPartitions,
    AskEnding,
    AskStaged,
    Command,
    Describe,
    End,
    Ended,
    Initialize,
    ListTransactions,
    NewProducer,
    Producer,
    Reply,
    Stage,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.ids import ProducerIds
from sharebroker_server.group_coordinator.core.transactions.model import (
    ENDING,
    IDLE,
    ONGOING,
    Transaction,
    TransactionState,
)
from sharebroker_server.group_coordinator.core.transactions.records import (
    IDS,
    Key,
    ProducerIdsRecord,
    Record,
    TransactionRecord,
)
from sharebroker_server.group_coordinator.core.view import ClusterView

DUE_AT_ONCE: Final = 100
"""Transactional ids that are looked at in one go when their time has come."""

_Decision = Decision[Record, Reply]


class TransactionMachine:
    """The transactional ids of one shard.

    `ending` is told each transactional id whose transaction is to be ended: of a new owner's, too.
    """

    def __init__(self, ids: ProducerIds, view: ClusterView, ending: Callable[[str], None]) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.ids = ids
        self._view = view
        self._ending = ending
        self._live: LiveKeys[Key] = LiveKeys()
        self._timeouts: Deadlines[str] = Deadlines()
        self._expiries: Deadlines[str] = Deadlines()
        self._untold: dict[str, None] = {}
        self._new_ids: list[Record] = []
        self._deciders: Mapping[type, Callable[[Any, int], _Decision]] = MappingProxyType(
            {
                Initialize: self._initialize,
                AddPartitions: self._add_partitions,
                VerifyPartitions: self._verify_partitions,
                End: self._end,
                AskEnding: self._ask_ending,
                Ended: self._ended,
                Describe: self._describe,
                ListTransactions: self._list,
                NewProducer: self._new_producer,
                Stage: self._stage,
                AskStaged: self._ask_staged,
            }
        )

    def decide(self, command: Command, now: float) -> _Decision:
        """What a command makes of its transactional id. Raises what the commands and `rules` name."""
        self._new_ids = []
        records, reply = self._deciders[type(command)](command, int(now * 1000))
        records = (*self._new_ids, *records)
        # Old facts first: what was decided just now must have the last word.
        return Decision((*self._renewed(len(records)), *records), reply)

    def apply(self, record: Record, position: int) -> None:
        """Takes the record at `position` in."""
        if isinstance(record, ProducerIdsRecord):
            self.ids.end = record.end
            self._live.put(IDS, position)
            return
        name, transaction = record.transactional_id, record.transaction
        self._untold.pop(name, None)
        if transaction is None:
            self.transactions.pop(name, None)
            self._timeouts.drop(name)
            self._expiries.drop(name)
            self._live.drop(name, position)
        else:
            self.transactions[name] = transaction
            self._watch(name, transaction)
            self._live.put(name, position)

    def next_deadline(self) -> float | None:
        """When a transaction may have to be aborted or ended, or a transactional id be forgotten."""
        if self._untold:
            return 0.0
        return min(
            (
                when
                for clock in (self._timeouts, self._expiries)
                if (when := clock.next_deadline()) is not None
            ),
            default=None,
        )

    def on_deadline(self, now: float) -> Sequence[Record]:
        """Aborts what took too long, forgets who was silent, tells what is to be ended."""
        while self._untold:
            self._ending(self._untold.popitem()[0])
        now_ms = int(now * 1000)
        late = self._over(self._timeouts, now, {ONGOING})
        silent = self._over(self._expiries, now, IDLE)
        return [
            *(TransactionRecord(name, rules.fence(self.transactions[name], now_ms)) for name in late),
            *(TransactionRecord(name, None) for name in silent),
        ]

    def trim_before(self) -> int:
        """Records at positions below count for nothing any more."""
        return self._live.trim_before()

    def _watch(self, name: str, transaction: Transaction) -> None:
        if transaction.state in ENDING:
            self._untold[name] = None
        else:
            clock = self._timeouts if transaction.state is ONGOING else self._expiries
            clock.touch(name, self._due_at(transaction))

    def _due_at(self, transaction: Transaction) -> float:
        if transaction.state is ONGOING:
            return (transaction.start_ms + transaction.timeout_ms) / 1000
        return (transaction.updated_ms + self._view.broker.transactional_id_expiration_ms) / 1000

    def _over(self, clock: Deadlines[str], now: float, states: Set[TransactionState]) -> list[str]:
        """Whose time is over in one of the states; a clock is not stopped when a state is left."""
        over = []
        for name in clock.due(now, DUE_AT_ONCE):
            transaction = self.transactions[name]
            if transaction.state in states:
                if self._due_at(transaction) <= now:
                    over.append(name)
                else:  # the setting has changed
                    self._watch(name, transaction)
        return over

    def _initialize(self, command: Initialize, now_ms: int) -> _Decision:
        longest = self._view.broker.transaction_max_timeout_ms
        if not command.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
        if not 0 < command.timeout_ms <= longest:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"{command.timeout_ms} ms is not within 1 and transaction.max.timeout.ms, {longest}.",
            )
        before = self.transactions.get(command.transactional_id)
        if before is None:
            self._check_room()
        after, reply = rules.initialize(before, command, self._new_id, now_ms)
        return self._changed(command.transactional_id, after, reply)

    def _check_room(self) -> None:
        most = self._view.broker.transaction_max_transactional_ids
        if len(self.transactions) >= most:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"This shard of the coordinator has {most} transactional ids, and no more may be "
                "(transaction.max.transactional.ids): one that nobody uses is forgotten in time.",
            )

    def _add_partitions(self, command: AddPartitions, now_ms: int) -> _Decision:
        before = self.transactions.get(command.transactional_id)
        return self._changed(
            command.transactional_id, rules.add_partitions(before, command, now_ms), command.partitions
        )

    def _verify_partitions(self, command: VerifyPartitions, now_ms: int) -> _Decision:
        known = self.transactions.get(command.transactional_id)
        return Decision((), rules.verify_partitions(known, command))

    def _end(self, command: End, now_ms: int) -> _Decision:
        before = self.transactions.get(command.transactional_id)
        after, reply = rules.end(before, command, self._new_id, now_ms)
        return self._changed(command.transactional_id, after, reply)

    def _ask_ending(self, command: AskEnding, now_ms: int) -> _Decision:
        transaction = self.transactions.get(command.transactional_id)
        return Decision((), transaction if transaction and transaction.state in ENDING else None)

    def _ended(self, command: Ended, now_ms: int) -> _Decision:
        transaction = self.transactions.get(command.transactional_id)
        if (
            transaction is None
            or transaction.state not in ENDING
            or rules.producer_of(transaction) != command.producer
        ):
            return Decision((), None)  # somebody else was quicker
        return self._changed(command.transactional_id, rules.ended(transaction, now_ms), None)

    def _describe(self, command: Describe, now_ms: int) -> _Decision:
        transaction = self.transactions.get(command.transactional_id)
        if transaction is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"There is no transactional id {command.transactional_id!r}.",
            )
        return Decision((), transaction)

    def _list(self, command: ListTransactions, now_ms: int) -> _Decision:
        def wanted(transaction: Transaction) -> bool:
            open_for = now_ms - transaction.start_ms if transaction.start_ms >= 0 else -1
            return (
                (not command.states or transaction.state in command.states)
                and (not command.producer_ids or transaction.producer_id in command.producer_ids)
                and (command.longer_than_ms < 0 or open_for > command.longer_than_ms)
            )

        return Decision((), {name: one for name, one in self.transactions.items() if wanted(one)})

    def _stage(self, command: Stage, now_ms: int) -> _Decision:
        before = self.transactions.get(command.transactional_id)
        return self._changed(command.transactional_id, staging.stage(before, command, now_ms), None)

    def _ask_staged(self, command: AskStaged, now_ms: int) -> _Decision:
        before = self.transactions.get(command.transactional_id)
        after, staged = staging.staged_of(before, command, now_ms)
        return self._changed(command.transactional_id, after, staged)

    def _new_producer(self, command: NewProducer, now_ms: int) -> _Decision:
        return Decision((), Producer(self._new_id(), 0))

    def _new_id(self) -> int:
        producer_id, end = self.ids.take()
        if end is not None:
            self._new_ids.append(ProducerIdsRecord(end))
        return producer_id

    def _changed(self, name: str, after: Transaction | None, reply: Reply) -> _Decision:
        return Decision((TransactionRecord(name, after),) if after is not None else (), reply)

    def _renewed(self, written: int) -> list[Record]:
        return [
            ProducerIdsRecord(self.ids.end) if key is None else TransactionRecord(key, self.transactions[key])
            for key in self._live.stale(written)
        ]
