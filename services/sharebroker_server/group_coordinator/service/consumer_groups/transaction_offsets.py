"""Offsets of consumer groups in transactions: the first of a transaction need its coordinator's
confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.names import OFFSETS_TOPIC_ID
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitInTransaction,
    CompleteTransaction,
)
from sharebroker_server.group_coordinator.core.consumer_groups.pending import UnverifiedError
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.leases import names
from sharebroker_server.routing.transaction_check import Claim, TransactionCheck

_TRIES: Final = 3
"""A transaction that ends between confirmation and commit must be confirmed again."""

_Rejected = dict[TopicIdPartition, KafkaError]


@dataclass(eq=False, slots=True)
class _Confirmation:
    """A confirmation in flight; `ended`: a transaction of the producer has ended in the shard meanwhile."""

    ended: bool = False


class TransactionOffsets:
    """Every method raises KafkaError."""

    def __init__(self, shards: Shards, check: TransactionCheck) -> None:
        self._shards = shards
        self._check = check
        self._confirming: dict[tuple[int, int], set[_Confirmation]] = {}

    async def commit(self, command: CommitInTransaction, claim: Claim) -> _Rejected:
        """Adds offsets to a confirmed transaction; returns the errors of rejected ones.

        Raises what the command and `TransactionCheck.confirm` do.
        """
        group_id = command.member.group_id
        rejection: KafkaError = KafkaError(ErrorCode.INVALID_TXN_STATE)
        for _ in range(_TRIES):
            try:
                return await self._shards.request(command, group_id, dict)
            except UnverifiedError as error:
                rejection = error
            command = replace(command, coordinator_epoch=await self._confirmed(command, claim))
        raise rejection

    async def complete(self, command: CompleteTransaction, shard: int) -> None:
        """Commits or drops the pending offsets of the transaction in a shard."""
        for confirmation in self._confirming.get((shard, command.producer_id), ()):
            confirmation.ended = True
        await self._shards.send_to(command, shard)

    async def _confirmed(self, command: CommitInTransaction, claim: Claim) -> int | None:
        """Returns the epoch of the transaction's coordinator; None if the confirmed transaction may have
        ended.
        """
        group_id = command.member.group_id
        shard = self._shards.shard_of(group_id)
        confirmation, generation = _Confirmation(), self._shards.load_generation(group_id)
        waiting = self._confirming.setdefault((shard, command.producer_id), set())
        waiting.add(confirmation)
        try:
            partition = names.partition(OFFSETS_TOPIC_ID, shard)
            epoch = await self._check.confirm(claim, command.producer_id, command.producer_epoch, partition)
        except KafkaError as error:
            raise _translated(error) from error
        finally:
            waiting.discard(confirmation)
            if not waiting:
                self._confirming.pop((shard, command.producer_id), None)
        # A marker that arrived meanwhile, here or at another owner, is not sent again.
        return None if confirmation.ended or self._shards.load_generation(group_id) != generation else epoch


def _translated(error: KafkaError) -> KafkaError:
    """Returns the error with a code that clients of OffsetCommit accept."""
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message, retry_after=error.retry_after)
    return error
