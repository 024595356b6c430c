"""The group coordinator's part of the broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """Shards, bounds of the runtime, and times in seconds.

    A write may take `write_timeout`, a change of share state `state_timeout`, less than after which it is
    tried anew. A heartbeat that has share state initialised waits for it up to `initialize_wait`, so that a
    new group has its partitions with the first answer. `transaction_shards` are those of the transaction
    coordinator; who comes while a transaction is still being ended waits for that up to `ending_wait`. A
    cluster without a `cluster_id` gets one.
    """

    shards: int = 50
    transaction_shards: int = 50
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    write_timeout: float = 5.0
    state_timeout: float = 10.0
    initialize_wait: float = 2.0
    ending_wait: float = 1.0
    cluster_id: str = ""

    @staticmethod
    def of(broker: BrokerConfig) -> GroupCoordinatorConfig:
        """From Kafka's properties offsets.* and transaction.*."""
        return GroupCoordinatorConfig(
            shards=broker.offsets_topic_num_partitions,
            transaction_shards=broker.transaction_state_log_num_partitions,
            cluster_id=broker.cluster_id,
            write_timeout=broker.offsets_commit_timeout_ms / 1000,
        )
