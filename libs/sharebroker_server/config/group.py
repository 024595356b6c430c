"""The properties of a share group (resource type GROUP), and the effective values for a broker
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_server.config.broker import BOUNDED, BrokerConfig
from sharebroker_server.config.keys import (
    INT_MAX,
    Key,
    Value,
    attribute,
    boolean,
    choice,
    integer,
    invalid,
    parse_all,
    table,
    text,
)
from sharebroker_server.config.reset import OffsetReset

_BOUNDS: Final = {name: (low, high) for name, low, high in BOUNDED}


def _inherited(default: int, low: int, name: str, doc: str) -> Any:
    at_least, at_most = _BOUNDS[name]
    return integer(default, low, INT_MAX, doc, broker=name, at_least=at_least, at_most=at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A share group's effective config; create with `resolve_group`."""

    share_session_timeout_ms: int = _inherited(
        45_000, 1, "group.share.session.timeout.ms", "Time without heartbeats after which a member is fenced."
    )
    share_heartbeat_interval_ms: int = _inherited(
        5000, 1, "group.share.heartbeat.interval.ms", "Heartbeat interval of the members."
    )
    share_assignment_interval_ms: int = _inherited(
        0, 0, "group.share.assignment.interval.ms", "Smallest time between two assignments of the group."
    )
    share_record_lock_duration_ms: int = _inherited(
        30_000,
        1000,
        "group.share.record.lock.duration.ms",
        "Duration of an acquisition lock. A record that is not acknowledged in time becomes available again.",
    )
    share_delivery_count_limit: int = _inherited(
        5,
        2,
        "group.share.delivery.count.limit",
        "Delivery limit: number of deliveries after which an unaccepted record is archived.",
    )
    share_partition_max_record_locks: int = _inherited(
        2000,
        100,
        "group.share.partition.max.record.locks",
        "Largest number of in-flight records of a share-partition.",
    )
    share_auto_offset_reset: str = text(
        "latest",
        "First start offset of the group: latest, earliest, or by_duration:PnDTnHnMn.nS for records of "
        "that age "
        "and younger.",
    )
    share_isolation_level: str = choice(
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        "Whether members receive records of open and aborted transactions.",
    )
    share_renew_acknowledge_enable: bool = boolean(
        True, "Permit members to renew acquisition locks (acknowledge type RENEW)."
    )

    @property
    def offset_reset(self) -> OffsetReset:
        """The parsed value of `share.auto.offset.reset`."""
        return OffsetReset.parse(self.share_auto_offset_reset)


GROUP_KEYS: Final[Mapping[str, Key]] = table(GroupConfig)
"""Every group property by name."""


def group_default(key: Key, broker: BrokerConfig) -> Value:
    """Returns the value of a property that the group does not set."""
    return broker.get(key.broker) if key.broker else key.default


def check_group(settings: Mapping[str, str], broker: BrokerConfig) -> None:
    """Checks all values that a group would have. Raises INVALID_CONFIG; Kafka: `GroupConfig.validate`."""
    parsed = parse_all(GROUP_KEYS, settings, "group config name")
    if "share_auto_offset_reset" in parsed:
        OffsetReset.parse(settings["share.auto.offset.reset"].strip())
    for name in settings:
        key = GROUP_KEYS[name]
        value, bounded = parsed[attribute(name)], _bounded(key, parsed[attribute(name)], broker)
        if value != bounded:
            limit = key.at_least if bounded > value else key.at_most  # type: ignore[operator]  # only numbers are bounded
            raise invalid(name, f"{name}={value} is outside the broker's limit {limit}={bounded}.")
    if not _is_session_longer(parsed, broker):
        raise invalid(
            "share.session.timeout.ms",
            "share.heartbeat.interval.ms must be less than share.session.timeout.ms.",
        )


def resolve_group(settings: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
    """Returns the effective config: the group's own values within the broker's limits, else the broker's
    defaults.

    The limits may have changed since a value was accepted, so values are clamped, never rejected (Kafka 4.3).
    """
    parsed = parse_all(GROUP_KEYS, settings, "group config name")
    values: dict[str, Any] = {
        (field := attribute(name)): _bounded(key, parsed[field], broker)
        if field in parsed
        else group_default(key, broker)
        for name, key in GROUP_KEYS.items()
    }
    return GroupConfig(**values)


def _bounded(key: Key, value: Value, broker: BrokerConfig) -> Value:
    if not key.broker or not isinstance(value, int):
        return value
    low, high = broker.get(key.at_least), broker.get(key.at_most)
    return min(max(value, int(low)), int(high))


def _is_session_longer(parsed: Mapping[str, Value], broker: BrokerConfig) -> bool:
    session = parsed.get("share_session_timeout_ms", broker.group_share_session_timeout_ms)
    heartbeat = parsed.get("share_heartbeat_interval_ms", broker.group_share_heartbeat_interval_ms)
    return int(session) > int(heartbeat)
