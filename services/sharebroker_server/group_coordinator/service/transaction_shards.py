"""The shards of the transaction coordinator in this process, and how a command reaches the one it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions.commands import (
    AskEnding,
    Command,
    ListTransactions,
    NewProducer,
    OfTransaction,
    Producer,
    Reply,
)
from sharebroker_server.group_coordinator.core.transactions.ids import ProducerIds
from sharebroker_server.group_coordinator.core.transactions.machine import TransactionMachine
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.core.transactions.records import Record
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.store.transactions import TransactionCodec
from sharebroker_server.leases import names
from sharebroker_server.stream_log.port import StreamLog

TransactionHost = ShardHost[Command, Record, Reply]
R = TypeVar("R")


def make_transaction_host(
    log: StreamLog, config: GroupCoordinatorConfig, view: ClusterView, ending: Callable[[str], None]
) -> TransactionHost:
    """The transaction coordinator's shards; start it with the process's lease holder.

    `ending` is told each transactional id whose transaction is to be ended.
    """
    shards = config.transaction_shards
    return ShardHost(
        names.TRANSACTIONS,
        shards,
        log,
        lambda index: TransactionMachine(ProducerIds(index, shards), view, ending),
        TransactionCodec(),
        config.runtime,
    )


class TransactionShards:
    """Sends commands to the shards held here. Every method raises KafkaError as the runtime does."""

    def __init__(self, host: TransactionHost, config: GroupCoordinatorConfig) -> None:
        self._host = host
        self._shards = config.transaction_shards
        self._timeout = config.write_timeout

    def epoch(self, transactional_id: str) -> int:
        """The epoch under which a transactional id is coordinated here."""
        return self._of(transactional_id).epoch

    async def ask(self, command: OfTransaction) -> Reply:
        """The reply to a command about one transactional id, once what it rests on is durable."""
        return await self._of(command.transactional_id).write(command, timeout=self._timeout)

    async def ending(self, transactional_id: str) -> Transaction | None:
        """The transaction that is being ended."""
        reply = await self.ask(AskEnding(transactional_id))
        return reply if isinstance(reply, Transaction) else None

    async def new_producer(self) -> Producer:
        """A producer id of any shard."""
        refusal = KafkaError(ErrorCode.NOT_COORDINATOR, "No shard of the transaction coordinator is here.")
        for shard in self._host.held():
            try:
                reply = await shard.write(NewProducer(), timeout=self._timeout)
            except KafkaError as error:
                refusal = error
            else:
                return expected(reply, Producer)
        raise refusal

    async def list(self, command: ListTransactions) -> tuple[dict[str, Transaction], list[int]]:
        """Transactions of all shards held here by transactional id, and these shards."""
        found: dict[str, Transaction] = {}
        held = self._host.indices()
        for index in held:
            reply = await self._host.shard(index).write(command, timeout=self._timeout)
            if isinstance(reply, dict):
                found |= reply
        return found, held

    def _of(self, transactional_id: str) -> ShardRuntime[Command, Record, Reply]:
        return self._host.shard(shard_of(transactional_id, self._shards))


def expected(reply: Reply, kind: type[R]) -> R:
    """The reply, which is of this kind. Raises UNKNOWN_SERVER_ERROR."""
    if not isinstance(reply, kind):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{kind.__name__} was asked for, not {reply!r}.")
    return reply
