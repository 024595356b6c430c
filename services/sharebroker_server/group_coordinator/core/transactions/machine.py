"""A shard of the transaction coordinator as a machine of the coordinator runtime.

Theory of operation
-------------------

A shard owns transactional ids. Each has a producer (an id and an epoch) and at most one transaction, in one
of the states of `model.py`; `rules.py` decides the transitions. Source: Kafka's TransactionCoordinator
(KIP-98, KIP-360, KIP-890).

    EMPTY, COMPLETE_* --add partitions--> ONGOING --end--> PREPARE_COMMIT --> COMPLETE_COMMIT
                                             |---end, timeout--> PREPARE_ABORT --> COMPLETE_ABORT

* A transaction is decided when the record of PREPARE_COMMIT or PREPARE_ABORT is durable. From then on the
  outcome cannot change: the service writes the markers to the partitions until it succeeds, then commands
  `Ended`. The markers carry the lease epoch of this shard, so a former owner's markers are fenced.
* Each decided transaction needs such a completion. `apply` notes it when it applies a PREPARE record, live or
  during replay; the next deadline, which is due at once, requests it with the effect `CompletionRequested`.
  So a new owner completes what an earlier owner decided. Requests may repeat; completion is idempotent.
* A producer epoch rises with each new producer, with each transaction of transaction.version 2, and when the
  coordinator aborts a transaction. Requests with an older epoch are fenced.
* An open transaction has a timeout; a transactional id that is not used expires. A deadline is not removed
  when a transaction leaves the state to which it applies (that would fill the heap of deadlines);
  `on_deadline` ignores and removes it.

Durable state: the transactions, and the end of the block of producer ids. Soft state: the position within
the block, the deadlines, and the completions to request; the latter two follow from the records.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.machine import Decision, SoftChange
from sharebroker_server.group_coordinator.core.deadlines import Deadlines
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.transactions import commands as c
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.model import (
    ENDING,
    IDLE,
    IDS,
    ONGOING,
    IdAllocation,
    IdsAssigned,
    Key,
    ProducerIds,
    ProducerIdsRecord,
    Record,
    Transaction,
    TransactionRecord,
    TransactionState,
)
from sharebroker_server.live_keys import LiveKeys

DUE_PER_DEADLINE: Final = 100

_Decision = Decision[Record, c.Reply]


class TransactionMachine:
    """The transactional ids of one shard."""

    def __init__(self, ids: ProducerIds, view: MetadataImage) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.ids = ids
        self._view = view
        self._live: LiveKeys[Key] = LiveKeys()
        self._timeouts: Deadlines[str] = Deadlines()
        self._expiries: Deadlines[str] = Deadlines()
        self._to_complete: dict[str, None] = {}

    def decide(self, command: c.Command, now: float) -> _Decision:
        """Returns the decision about a command. Raises the errors that the commands and `rules` name."""
        now_ms, ids = int(now * 1000), IdAllocation(self.ids)
        changed: tuple[Record, ...] = ()
        reply: c.Reply
        match command:
            case c.ListTransactions():
                reply = self._listed(command, now_ms)
            case c.NewProducer():
                reply = c.ProducerIdAndEpoch(ids.new_id(), 0)
            case _:
                name = command.transactional_id
                if isinstance(command, c.InitProducerId):
                    self._check_initialize(command)
                step = rules.Step(ids.new_id, now_ms)
                after, reply = rules.RULES[type(command)](self.transactions.get(name), command, step)
                changed = (TransactionRecord(name, after),) if after is not None else ()
        new_block = () if ids.new_end is None else (ProducerIdsRecord(ids.new_end),)
        records = (*new_block, *changed)
        # Rewritten records state what was true before the decision, so they precede its records.
        return Decision((*self._renewed(len(records)), *records), reply, ids.soft)

    def apply(self, record: Record, position: int) -> None:
        """Applies the record at `position`."""
        if isinstance(record, ProducerIdsRecord):
            self.ids.end = record.end
            self._live.put(IDS, position)
            return
        name, transaction = record.transactional_id, record.transaction
        self._to_complete.pop(name, None)
        if transaction is None:
            self.transactions.pop(name, None)
            self._timeouts.drop(name)
            self._expiries.drop(name)
            self._live.drop(name, position)
            return
        self.transactions[name] = transaction
        self._live.put(name, position)
        if transaction.state in ENDING:
            self._to_complete[name] = None
        else:
            self._deadlines(expiry=transaction.state is not ONGOING).set(name, self._due_at(transaction))

    def apply_soft(self, change: SoftChange) -> None:
        """Applies a soft change of an accepted decision."""
        match change:
            case IdsAssigned(remaining):
                self.ids.remaining = remaining
            case c.DeadlineMoved(expiry, name, None):
                self._deadlines(expiry=expiry).drop(name)
            case c.DeadlineMoved(expiry, name, float(deadline)):
                self._deadlines(expiry=expiry).set(name, deadline)
            case c.CompletionsRequested(names):
                for name in names:
                    self._to_complete.pop(name, None)
            case _:
                raise TypeError(f"not a soft change of transactions: {change!r}")

    def next_deadline(self) -> float | None:
        """Returns when a transaction must be completed or aborted, or a transactional id expires."""
        if self._to_complete:
            return 0.0
        deadlines = self._timeouts.next_deadline(), self._expiries.next_deadline()
        return min((when for when in deadlines if when is not None), default=None)

    def on_deadline(self, now: float) -> Decision[Record, None]:
        """Requests completions, aborts timed-out transactions, deletes expired transactional ids."""
        now_ms, names = int(now * 1000), tuple(self._to_complete)
        late, moved = self._due(now, {ONGOING}, expiry=False)
        expired, moved_too = self._due(now, IDLE, expiry=True)
        requested = (c.CompletionsRequested(frozenset(names)),) if names else ()
        return Decision(
            (
                *(TransactionRecord(name, rules.fence(self.transactions[name], now_ms)) for name in late),
                *(TransactionRecord(name, None) for name in expired),
            ),
            None,
            (*requested, *moved, *moved_too),
            tuple(map(c.CompletionRequested, names)),
        )

    def trim_before(self) -> int:
        """Returns the position below which records are redundant."""
        return self._live.trim_before()

    def _deadlines(self, *, expiry: bool) -> Deadlines[str]:
        return self._expiries if expiry else self._timeouts

    def _due_at(self, transaction: Transaction) -> float:
        if transaction.state is ONGOING:
            return (transaction.start_ms + transaction.timeout_ms) / 1000
        return (transaction.updated_ms + self._view.broker.transactional_id_expiration_ms) / 1000

    def _due(
        self, now: float, states: Set[TransactionState], *, expiry: bool
    ) -> tuple[list[str], list[SoftChange]]:
        """Returns the transactional ids that are due in one of the states, and how their deadlines move."""
        due: list[str] = []
        moved: list[SoftChange] = []
        for name in self._deadlines(expiry=expiry).due(now, DUE_PER_DEADLINE):
            transaction, again = self.transactions[name], None
            if transaction.state in states:
                if self._due_at(transaction) <= now:
                    due.append(name)
                else:  # the configured expiry has changed
                    again = self._due_at(transaction)
            moved.append(c.DeadlineMoved(expiry, name, again))
        return due, moved

    def _check_initialize(self, command: c.InitProducerId) -> None:
        broker = self._view.broker
        if not command.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
        if not 0 < command.timeout_ms <= broker.transaction_max_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"{command.timeout_ms} ms is not within 1 and transaction.max.timeout.ms, "
                f"{broker.transaction_max_timeout_ms}.",
            )
        limit = broker.transaction_max_transactional_ids
        if command.transactional_id not in self.transactions and len(self.transactions) >= limit:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"This shard of the coordinator has reached its maximum of {limit} transactional ids "
                "(transaction.max.transactional.ids); unused ones expire.",
            )

    def _listed(self, command: c.ListTransactions, now_ms: int) -> dict[str, Transaction]:
        def matches(transaction: Transaction) -> bool:
            open_for = now_ms - transaction.start_ms if transaction.start_ms >= 0 else -1
            return (
                (not command.states or transaction.state in command.states)
                and (not command.producer_ids or transaction.producer_id in command.producer_ids)
                and (command.longer_than_ms < 0 or open_for > command.longer_than_ms)
            )

        return {name: found for name, found in self.transactions.items() if matches(found)}

    def _renewed(self, written: int) -> list[Record]:
        return [
            ProducerIdsRecord(self.ids.end) if key is None else TransactionRecord(key, self.transactions[key])
            for key in self._live.stale(written)
        ]
