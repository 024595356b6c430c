"""Settings of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """Numbers of shards, bounds of the runtime, and times in seconds.

    * `state_timeout` bounds a change of share state, and is shorter than the interval after which the change
      is repeated.
    * `initialize_wait`: a heartbeat waits so long for the initialisation of share state, so that the first
      response of a new group contains partitions.
    * `transaction_shards`: shards of the transaction coordinator. `ending_wait`: a request waits so long for
      the completion of the transaction before.
    * `cluster_id`: the id of a new cluster; "" generates one.
    """

    shards: int = 50
    transaction_shards: int = 50
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    state_timeout: float = 10.0
    initialize_wait: float = 2.0
    ending_wait: float = 1.0
    cluster_id: str = ""

    @staticmethod
    def of(broker: BrokerConfig) -> GroupCoordinatorConfig:
        """Returns the settings from Kafka's properties offsets.* and transaction.*."""
        return GroupCoordinatorConfig(
            shards=broker.offsets_topic_num_partitions,
            transaction_shards=broker.transaction_state_log_num_partitions,
            cluster_id=broker.cluster_id,
            runtime=RuntimeSettings(write_timeout=broker.offsets_commit_timeout_ms / 1000),
        )
