"""Offsets of consumer groups that producers add to their transactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import UnverifiedOffsetsError
from sharebroker_server.group_coordinator.service.shards import Host
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
    """Offsets that producers add to their transactions. Every method raises KafkaError.

    The first offsets of a transaction need the confirmation of its coordinator that it is open.
    """

    def __init__(self, host: Host, check: TransactionCheck) -> None:
        self._host = host
        self._check = check
        self._confirming: dict[tuple[int, int], set[_Confirmation]] = {}

    async def commit(self, command: c.CommitInTransaction, claim: Claim) -> _Rejected:
        """Adds offsets to a confirmed transaction; returns the errors of rejected ones.

        Raises what the command and `TransactionCheck.confirm` do.
        """
        group_id = command.member.group_id
        rejection: KafkaError = KafkaError(ErrorCode.INVALID_TXN_STATE)
        for _ in range(_TRIES):
            try:
                return await self._host.request(group_id, command, dict)
            except UnverifiedOffsetsError as error:
                rejection = error
            command = replace(command, coordinator_epoch=await self._confirmed(command, claim))
        raise rejection

    async def complete(self, command: c.CompleteTransaction, shard: int) -> None:
        """Commits or drops the pending offsets of the transaction in a shard."""
        for confirmation in self._confirming.get((shard, command.producer_id), ()):
            confirmation.ended = True
        await self._host.shard(shard).submit(command)

    async def _confirmed(self, command: c.CommitInTransaction, claim: Claim) -> int | None:
        """Returns the epoch of the transaction's coordinator.

        Returns None if the confirmed transaction may have ended.
        """
        group_id = command.member.group_id
        shard = shard_of(group_id, self._host.shards or 1)
        confirmation, generation = _Confirmation(), self._host.of(group_id).load_generation
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
        return None if confirmation.ended or self._host.of(group_id).load_generation != generation else epoch


def _translated(error: KafkaError) -> KafkaError:
    """Returns the error with a code that clients of OffsetCommit accept."""
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message, retry_after=error.retry_after)
    return error
