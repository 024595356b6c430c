"""Settings of the group coordinator from the broker's properties."""

from __future__ import annotations

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig


def test_settings_have_the_values_of_broker_properties() -> None:
    broker = BrokerConfig.parse(
        [
            "offsets.topic.num.partitions=3",
            "transaction.state.log.num.partitions=7",
            "offsets.commit.timeout.ms=1500",
            "cluster.id=orders",
        ]
    )
    config = GroupCoordinatorConfig.of(broker)
    assert (config.shards, config.transaction_shards) == (3, 7)
    assert config.runtime.write_timeout == 1.5
    assert config.cluster_id == "orders"


def test_defaults_are_kafkas() -> None:
    config = GroupCoordinatorConfig.of(BrokerConfig())
    assert (config.shards, config.transaction_shards, config.runtime.write_timeout) == (50, 50, 5.0)
