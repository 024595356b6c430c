"""The share coordinator's part of the broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings
from sharebroker_server.share_coordinator.core.recording import Rules


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    """Shards, rules, bounds of the runtime, and the time a write may take (seconds)."""

    shards: int
    rules: Rules
    runtime: RuntimeSettings
    write_timeout: float

    @staticmethod
    def of(broker: BrokerConfig) -> ShareCoordinatorConfig:
        """From Kafka's properties share.coordinator.*."""
        return ShareCoordinatorConfig(
            broker.share_coordinator_state_topic_num_partitions,
            Rules(
                broker.share_coordinator_snapshot_update_records_per_snapshot,
                broker.share_coordinator_cold_partition_snapshot_interval_ms / 1000,
            ),
            RuntimeSettings(
                trim_interval=broker.share_coordinator_state_topic_prune_interval_ms / 1000,
            ),
            broker.share_coordinator_write_timeout_ms / 1000,
        )
