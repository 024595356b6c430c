"""Completes the settings of a run with facts of the server: topic, groups and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sharebroker import Admin
from sharebroker_protocol.clock import now
from sharebroker_server.pipeline.settings import Settings

_LIMIT: Final = "share.delivery.count.limit"


def settings_of(
    server: str, project: dict[str, Any], watch: Sequence[str], records_per_trigger: int
) -> Settings:
    """Returns the settings for Spark, after checking topic and groups. Raises KafkaError."""
    topic = project["topic"]
    with Admin(server) as admin:
        admin.describe_topic(topic)
        for name in watch:
            admin.describe_group(name)
        limits = {name: _limit(admin, name) for name in watch or groups_of(admin, topic)}
    started = f"{datetime.fromtimestamp(now(), UTC):%Y-%m-%d %H:%M:%S}"
    return Settings(server, project, ",".join(watch), limits, records_per_trigger, started)


def groups_of(admin: Admin, topic: str) -> list[str]:
    """Returns the share groups that have offsets of the topic. Raises KafkaError."""
    groups = [listed.group_id for listed in admin.list_groups()]
    return [
        name for name in groups if any(partition.topic == topic for partition in admin.group_offsets(name))
    ]


def _limit(admin: Admin, group: str) -> int:
    return next(int(config.value or 0) for config in admin.group_configs(group) if config.name == _LIMIT)
