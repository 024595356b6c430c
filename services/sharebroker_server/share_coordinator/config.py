"""The share coordinator's configuration, derived from the broker's properties."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    """Number of shards, checkpoint rules, and limits of the runtime."""

    shards: int
    rules: CheckpointRules
    runtime: RuntimeSettings

    @staticmethod
    def of(broker: BrokerConfig) -> ShareCoordinatorConfig:
        """Returns the values of the properties `share.coordinator.*`, which are Kafka's."""
        return ShareCoordinatorConfig(
            broker.share_coordinator_state_topic_num_partitions,
            CheckpointRules(
                broker.share_coordinator_snapshot_update_records_per_snapshot,
                broker.share_coordinator_cold_partition_snapshot_interval_ms / 1000,
            ),
            RuntimeSettings(
                write_timeout=broker.share_coordinator_write_timeout_ms / 1000,
                trim_interval=broker.share_coordinator_state_topic_prune_interval_ms / 1000,
            ),
        )
