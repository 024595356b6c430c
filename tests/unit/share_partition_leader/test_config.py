"""A group's configuration in the units of the core."""

from __future__ import annotations

from dataclasses import replace

from sharebroker_server.config.group import GroupConfig
from sharebroker_server.share_partition_leader.config import share_partition_settings


def test_a_group_config_becomes_share_partition_settings() -> None:
    config = replace(
        GroupConfig(),
        share_delivery_count_limit=7,
        share_record_lock_duration_ms=1500,
        share_partition_max_record_locks=300,
        share_renew_acknowledge_enable=False,
        share_isolation_level="read_committed",
    )
    settings = share_partition_settings(config)
    assert (settings.delivery_count_limit, settings.lock_duration, settings.max_record_locks) == (7, 1.5, 300)
    assert (settings.renew_enabled, settings.read_committed) == (False, True)
    assert not share_partition_settings(GroupConfig()).read_committed
