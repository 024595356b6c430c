"""Share state in the partitions' own logs: a shard per partition, on its leader's log (decision 0117).

A shard has the machine and the runtime of the share coordinator's shards; `partition_state_log` has its log.
"""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings, ShardRuntime
from sharebroker_server.leases import names
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import ShareRecord
from sharebroker_server.share_coordinator.service.partition_state_log import LogLease, PartitionStateLog
from sharebroker_server.share_coordinator.store.control_codec import ControlRecordCodec

StateShard = ShardRuntime[c.Command, ShareRecord, c.Reply]


class PartitionStates:
    """The shards of the led partitions whose topics store share state in their logs."""

    def __init__(self, rules: CheckpointRules, settings: RuntimeSettings) -> None:
        self._rules = CheckpointRules(rules.deltas_per_checkpoint, rules.cold_after, indexed=True)
        self._settings = settings
        self._held: dict[tuple[str, int], StateShard] = {}

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
        self._held[topic_id, partition] = shard
        shard.open(log.epoch)

        async def checkpoint(before: int) -> None:
            groups = log.transactions.share.groups_before(before)
            keys = tuple(SharePartitionKey(group_id, topic_id, partition) for group_id in groups)
            await shard.submit(c.CheckpointStates(keys))

        log.checkpoint_state = checkpoint

    async def close(self, topic_id: str, partition: int) -> None:
        """Ends the shard of a partition, after its pending writes; must precede the end of the log."""
        shard = self._held.pop((topic_id, partition), None)
        if shard is not None:
            await shard.close()

    def shard(self, topic_id: str, partition: int) -> StateShard:
        """Returns the shard of a partition. Raises NOT_COORDINATOR."""
        shard = self._held.get((topic_id, partition))
        if shard is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                f"{names.partition(topic_id, partition)} has no share state in this process.",
            )
        return shard
