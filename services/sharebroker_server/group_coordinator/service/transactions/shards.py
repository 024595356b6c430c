"""The transaction coordinator's shards in this process, and the routing of commands to them."""

from __future__ import annotations

from typing import TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions.commands import (
    Command,
    ListTransactions,
    NewProducer,
    OfTransaction,
    Producer,
    ReadEnding,
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
    log: StreamLog, config: GroupCoordinatorConfig, view: ClusterView
) -> TransactionHost:
    """Returns the shards; start them with the lease holder and `TransactionCoordinator.perform`."""
    shards = config.transaction_shards
    return ShardHost(
        names.TRANSACTIONS,
        shards,
        log,
        lambda index: TransactionMachine(ProducerIds(index, shards), view),
        TransactionCodec(),
        config.runtime,
    )


class TransactionShards:
    """Sends commands to the shards of this process. Every method raises KafkaError as the runtime does."""

    def __init__(self, host: TransactionHost, config: GroupCoordinatorConfig) -> None:
        self._host = host
        self._shards = config.transaction_shards
        self._timeout = config.write_timeout

    def epoch(self, transactional_id: str) -> int:
        """Returns the lease epoch of a transactional id's shard."""
        return self._of(transactional_id).epoch

    async def request(self, command: OfTransaction) -> Reply:
        """Returns the reply to a command about one transactional id once it is durable."""
        return await self._of(command.transactional_id).write(command, timeout=self._timeout)

    async def ending(self, transactional_id: str) -> Transaction | None:
        """Returns the transaction if it is decided and not completed."""
        reply = await self.request(ReadEnding(transactional_id))
        return reply if isinstance(reply, Transaction) else None

    async def new_producer(self) -> Producer:
        """Returns a producer id of any shard."""
        rejection = KafkaError(
            ErrorCode.NOT_COORDINATOR, "No shard of the transaction coordinator is on this broker."
        )
        for shard in self._host.held():
            try:
                reply = await shard.write(NewProducer(), timeout=self._timeout)
            except KafkaError as error:
                rejection = error
            else:
                return expected(reply, Producer)
        raise rejection

    async def list(self, command: ListTransactions) -> tuple[dict[str, Transaction], list[int]]:
        """Returns the transactions of all shards in this process by transactional id, and these shards."""
        return await self._host.list_all(command, self._timeout)

    def _of(self, transactional_id: str) -> ShardRuntime[Command, Record, Reply]:
        return self._host.shard(shard_of(transactional_id, self._shards))


def expected(reply: Reply, kind: type[R]) -> R:
    """Returns the reply if it is of this kind. Raises UNKNOWN_SERVER_ERROR."""
    if not isinstance(reply, kind):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The reply is {reply!r}, not a {kind.__name__}.")
    return reply
