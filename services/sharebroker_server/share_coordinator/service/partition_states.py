"""Share state in the partitions' own logs: a shard per partition, on its leader's log (decision 0117).

A shard has the machine and the runtime of the share coordinator's shards; `partition_state_log` has its log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.coordinator_runtime.lifecycle import REPAIR
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings, ShardRuntime
from sharebroker_server.leases import names
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import ShareRecord
from sharebroker_server.share_coordinator.service.partition_state_log import LogLease, PartitionStateLog
from sharebroker_server.share_coordinator.store.control_codec import MOST_DELTAS, ControlRecordCodec
from sharebroker_server.share_coordinator.store.control_format import decode

if TYPE_CHECKING:
    from sharebroker_server.record_log.core.share_index import ShareIndex
    from sharebroker_server.record_log.partition_log import PartitionLog

StateShard = ShardRuntime[c.Command, ShareRecord, c.Reply]


Claim = Callable[[str, int], Awaitable[object]]

_OF_COORDINATORS: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What errors of a claim mean for share state."""


class PartitionStates:
    """The shards of the led partitions whose topics store share state in their logs."""

    def __init__(
        self, rules: CheckpointRules, settings: RuntimeSettings, has_topic: Callable[[str], bool]
    ) -> None:
        self.has_topic = has_topic
        """Whether the topic with an id stores share state in its logs."""
        deltas = min(rules.deltas_per_checkpoint, MOST_DELTAS)
        self._rules = CheckpointRules(deltas, rules.cold_after, indexed=True)
        self._settings = settings
        self._held: dict[str, StateShard] = {}
        self._logs: dict[str, PartitionLog] = {}
        self.claim: Claim | None = None
        """Claims a partition that this process may lead; None if it leads none."""

    def open(self, log: PartitionLog) -> None:
        """Loads the state in a log, and checkpoints it whenever the log start would pass it."""
        topic_id, partition = names.topic_partition(log.partition)
        shard: StateShard = ShardRuntime(
            log.partition,
            LogLease(log),
            PartitionStateLog(log),
            lambda: ShareCoordinatorMachine(self._rules),
            ControlRecordCodec(topic_id, partition),
            self._settings,
        )
        self._held[log.partition] = shard
        self._logs[log.partition] = log
        shard.open(log.epoch)

        async def checkpoint(groups: Iterable[str]) -> None:
            keys = tuple(SharePartitionKey(group_id, topic_id, partition) for group_id in groups)
            await shard.submit(c.CheckpointStates(keys))

        log.checkpoint_state = checkpoint

    async def close(self, resource: str) -> None:
        """Ends the shard of a partition, after its pending writes; must precede the end of the log."""
        self._logs.pop(resource, None)
        shard = self._held.pop(resource, None)
        if shard is not None:
            await shard.close()

    def shard(self, resource: str) -> StateShard:
        """Returns the shard of a partition that this process leads. Raises NOT_COORDINATOR."""
        shard = self._held.get(resource)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{resource} has no share state in this process.")
        return shard

    def index(self, resource: str) -> ShareIndex:
        """Returns where the log of a led partition has the state. Raises NOT_COORDINATOR."""
        self.shard(resource)
        return self._logs[resource].transactions.share

    async def stored(self, key: SharePartitionKey) -> list[tuple[int, ShareRecord]]:
        """Returns the stored records of a share-partition from its newest checkpoint on, with their offsets.

        Raises:
            KafkaError: NOT_COORDINATOR, CORRUPT_MESSAGE; others as `PartitionLog.read`.
        """
        resource = names.partition(key.topic_id, key.partition)
        self.shard(resource)
        try:
            records = [
                (offset, decode(record, key.topic_id, key.partition).record)
                for offset, record in await self._logs[resource].state_records()
            ]
        except ValueError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{resource}: {error}{REPAIR}") from error
        return [(offset, record) for offset, record in records if record.key == key]

    async def claimed(self, topic_id: str, partition: int) -> StateShard:
        """Returns the shard of a partition, which is claimed if necessary.

        Raises:
            KafkaError: NOT_COORDINATOR if another process leads it; others as `claim`.
        """
        resource = names.partition(topic_id, partition)
        if resource not in self._held and self.claim is not None:
            try:
                await self.claim(topic_id, partition)
            except KafkaError as error:
                code = _OF_COORDINATORS.get(error.code, error.code)
                raise KafkaError(code, error.message, retry_after=error.retry_after) from error
        return self.shard(resource)
