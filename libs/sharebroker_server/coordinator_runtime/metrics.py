"""Metrics of coordinator shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.telemetry.metrics import Family, gauge

AnyHost = ShardHost[Any, Any, Any]


def shard_families(hosts: Sequence[AnyHost]) -> Iterable[Family]:
    """Yields the metrics of the shards that this process owns."""
    yield gauge(
        "sharebroker_shards",
        "Coordinator shards that this process owns, by state (Kafka: num-partitions).",
        (
            (("coordinator", host.name, "state", state.name.lower()), states[state])
            for host in hosts
            for states in [Counter(shard.state for shard in host.held())]
            for state in ShardState
        ),
    )
    yield gauge(
        "sharebroker_shard_last_pruned_offset",
        "Last position at which the log of a shard was trimmed (Kafka: last-pruned-offset).",
        ((("shard", shard.shard), shard.trimming.before - 1) for host in hosts for shard in host.held()),
    )


def not_active(hosts: Iterable[AnyHost]) -> list[str]:
    """Returns the owned shards that do not accept commands yet."""
    return [shard.shard for host in hosts for shard in host.held() if shard.state is not ShardState.ACTIVE]
