"""Offsets of consumer groups in transactions: the first of one wait until its coordinator confirms it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.internal_topics import OFFSETS_TOPIC_ID
from sharebroker_server.cluster.transaction_check import Claim, TransactionCheck
from sharebroker_server.group_coordinator.core.consumers.commands import (
    CommitInTransaction,
    CompleteTransaction,
)
from sharebroker_server.group_coordinator.core.consumers.pending import UnverifiedError
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.leases import names

_TRIES: Final = 3
"""A transaction that ends between asking and committing has to be asked for again."""

_Refused = dict[TopicIdPartition, KafkaError]


@dataclass(eq=False, slots=True)
class _Asking:
    """Somebody asks for a transaction; `ended`: a transaction of the producer has ended here since then."""

    ended: bool = False


class TransactionOffsets:
    """Every method raises KafkaError."""

    def __init__(self, shards: Shards, check: TransactionCheck) -> None:
        self._shards = shards
        self._check = check
        self._asking: dict[tuple[int, int], set[_Asking]] = {}

    async def commit(self, command: CommitInTransaction, claim: Claim) -> _Refused:
        """Keeps offsets until the transaction ends, which is made sure to come; those refused.

        Raises what the command and `TransactionCheck.confirm` do.
        """
        group_id = command.member.group_id
        refusal: KafkaError = KafkaError(ErrorCode.INVALID_TXN_STATE)
        for _ in range(_TRIES):
            try:
                return await self._shards.ask(command, group_id, dict)
            except UnverifiedError as error:
                refusal = error
            command = replace(command, coordinator_epoch=await self._confirmed(command, claim))
        raise refusal

    async def complete(self, command: CompleteTransaction, shard: int) -> None:
        """What is pending of the transaction in a shard counts, or is dropped, as soon as this returns."""
        for asking in self._asking.get((shard, command.producer_id), ()):
            asking.ended = True
        await self._shards.submit_to(command, shard)

    async def _confirmed(self, command: CommitInTransaction, claim: Claim) -> int | None:
        """The epoch of the transaction's coordinator; None where the answer may be of one that has ended."""
        group_id = command.member.group_id
        shard = self._shards.shard_of(group_id)
        asking, memory = _Asking(), self._shards.memory(group_id)
        waiting = self._asking.setdefault((shard, command.producer_id), set())
        waiting.add(asking)
        try:
            partition = names.partition(OFFSETS_TOPIC_ID, shard)
            epoch = await self._check.confirm(claim, command.producer_id, command.producer_epoch, partition)
        except KafkaError as error:
            raise _translated(error) from error
        finally:
            waiting.discard(asking)
            if not waiting:
                self._asking.pop((shard, command.producer_id), None)
        # A marker that has come since, here or to another owner, would not come again.
        return None if asking.ended or self._shards.memory(group_id) != memory else epoch


def _translated(error: KafkaError) -> KafkaError:
    """In the codes that who commits an offset may see."""
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message, retry_after=error.retry_after)
    return error
