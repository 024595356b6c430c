import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig


def test_defaults_are_kafkas() -> None:
    config = ShareCoordinatorConfig.of(BrokerConfig())
    assert (config.shards, config.runtime.write_timeout) == (50, 5.0)
    assert (config.rules.deltas_per_checkpoint, config.rules.cold_after) == (500, 300.0)
    assert config.runtime.trim_interval == 300.0


def test_property_names_are_kafkas() -> None:
    config = ShareCoordinatorConfig.of(
        BrokerConfig.parse(
            [
                "share.coordinator.state.topic.num.partitions=3",
                "share.coordinator.state.topic.prune.interval.ms=1000",
                "share.coordinator.cold.partition.snapshot.interval.ms=2000",
                "share.coordinator.snapshot.update.records.per.snapshot=0",
                "share.coordinator.write.timeout.ms=100",
            ]
        )
    )
    assert (config.shards, config.runtime.write_timeout) == (3, 0.1)
    assert (config.rules.deltas_per_checkpoint, config.rules.cold_after) == (0, 2.0)
    assert config.runtime.trim_interval == 1.0


@pytest.mark.parametrize("value", ["-1", "501", "many"])
def test_value_out_of_bounds_is_rejected(value: str) -> None:
    with pytest.raises(KafkaError):
        BrokerConfig.parse([f"share.coordinator.snapshot.update.records.per.snapshot={value}"])
