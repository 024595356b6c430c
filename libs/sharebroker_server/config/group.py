"""The properties of a share group (resource type GROUP), and their effective values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sharebroker_protocol.model import LONGEST_JOURNAL
from sharebroker_server.config.broker import BOUNDED, BROKER_KEYS, BrokerConfig
from sharebroker_server.config.keys import (
    INT_MAX,
    Key,
    Value,
    attribute,
    boolean,
    choice,
    double,
    inherited,
    integer,
    invalid,
    long_from,
    parse_all,
    several,
    table,
    text,
)

Strategy = Literal["earliest", "latest", "by_duration"]

_BOUNDS: Final = {name: (low, high) for name, low, high in BOUNDED}
_RESET: Final = "share.auto.offset.reset"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
PAUSED: Final = "share.paused"
PAUSE_REASON: Final = "share.pause.reason"
FAILED_PERCENT: Final = "share.breaker.failed.percent"
_BY_DURATION: Final = "by_duration:"
# The syntax of java.time.Duration.parse: days to seconds, each with its own sign, and a leading sign.
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS: Final = (86_400 * 10**9, 3600 * 10**9, 60 * 10**9, 10**9)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A reset policy; `duration_ms` applies to `by_duration` only."""

    strategy: Strategy
    duration_ms: int = 0

    @staticmethod
    def parse(value: str) -> OffsetReset:
        """Parses `earliest`, `latest` or `by_duration:<ISO-8601>`. Raises INVALID_CONFIG."""
        if value == "earliest":
            return OffsetReset("earliest")
        if value == "latest":
            return OffsetReset("latest")
        if value.startswith(_BY_DURATION):
            millis = duration_ms(value.removeprefix(_BY_DURATION))
            if millis is not None and millis >= 0:
                return OffsetReset("by_duration", millis)
        raise invalid(
            _RESET,
            f"Invalid value {value!r} for {_RESET}: expected latest, earliest, or by_duration: followed by "
            "an ISO-8601 duration PnDTnHnMn.nS that is not negative.",
        )


def duration_ms(text: str) -> int | None:
    """Returns the milliseconds of an ISO-8601 duration, rounded down; None if the text is invalid."""
    match = _DURATION.fullmatch(text)
    if match is None or match[3] in ("T", "t"):
        return None
    counts = (match[2], match[4], match[5], match[6])
    if not any(counts):
        return None
    nanos = sum(int(count) * unit for count, unit in zip(counts, _UNITS, strict=True) if count)
    fraction = int((match[7] or "").ljust(9, "0"))
    nanos += -fraction if (match[6] or "").startswith("-") else fraction
    return (-nanos if match[1] == "-" else nanos) // 10**6


def _bounded_by(name: str) -> Any:
    at_least, at_most = _BOUNDS[name]
    return inherited(BROKER_KEYS[name], high=INT_MAX, at_least=at_least, at_most=at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A share group's effective config; create with `resolve_group`."""

    share_session_timeout_ms: int = _bounded_by("group.share.session.timeout.ms")
    share_heartbeat_interval_ms: int = _bounded_by("group.share.heartbeat.interval.ms")
    share_assignment_interval_ms: int = _bounded_by("group.share.assignment.interval.ms")
    share_record_lock_duration_ms: int = _bounded_by("group.share.record.lock.duration.ms")
    share_delivery_count_limit: int = _bounded_by("group.share.delivery.count.limit")
    share_delivery_count_on: str = choice(
        "acquisition",
        ("acquisition", "failure"),
        "What counts as a delivery: each acquisition (Kafka), or only a failure: the end of the lock, "
        "session or stream, but not a release. Not Kafka's.",
    )
    share_partition_max_record_locks: int = _bounded_by("group.share.partition.max.record.locks")
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
    share_record_max_age_ms: int = long_from(
        0,
        0,
        "Age by timestamp from which the group archives a record instead of delivering it; 0: records do not "
        "expire (not in Kafka).",
    )
    share_failed_records_max: int = integer(
        100,
        0,
        LONGEST_JOURNAL,
        "Most entries in the journal of failed records of a share-partition; 0: failed records are not "
        "listed. Not Kafka's.",
    )

    errors_deadletterqueue_topic_name: str = text(
        "", "Topic of the dead letters of the group, from share.version 2 on; empty: there are none."
    )
    errors_deadletterqueue_copy_record_enable: bool = inherited(
        BROKER_KEYS["group.share.dead.letter.copy.default"],
        doc="Whether a dead letter has the key, value and headers of the record, or only headers that "
        "describe it.",
    )
    errors_deadletterqueue_failure_policy: str = choice(
        "hold",
        ("hold", "archive"),
        "A record whose dead letter cannot be written: hold keeps it until the letter is written, archive "
        "archives it without one, as Kafka does. Not Kafka's.",
    )

    share_paused: bool = boolean(
        False, "Deliver no records to the members. The circuit breaker sets it. Not Kafka's."
    )
    share_pause_reason: str = text("", "Why the group is paused, for administrators. Not Kafka's.")
    share_breaker_failed_percent: int = integer(
        0,
        0,
        100,
        "Share of failed records among the finished ones above which the group is paused: rejected records, "
        "and those that reached the delivery limit; 0: no circuit breaker. Not Kafka's.",
    )
    share_breaker_window_ms: int = integer(
        60_000, 1_000, 3_600_000, "Time over which the circuit breaker counts. Not Kafka's."
    )
    share_breaker_min_records: int = integer(
        100,
        1,
        INT_MAX,
        "Finished records in the window from which on the circuit breaker decides. Not Kafka's.",
    )

    share_retry_backoff_ms: int = integer(
        0,
        0,
        INT_MAX,
        "Delay before a record is redelivered after its first failed delivery; 0: none. Not Kafka's.",
        at_most="group.share.max.retry.delay.ms",
    )
    share_retry_backoff_multiplier: float = double(
        2.0, 1, 1000, "Factor by which the delay grows with each further failed delivery; 1: constant."
    )
    share_retry_backoff_max_ms: int = integer(
        0,
        0,
        INT_MAX,
        "Longest delay of the retry backoff; 0: 100 times `share.retry.backoff.ms`.",
        at_most="group.share.max.retry.delay.ms",
    )
    share_retry_backoff_jitter: float = double(
        0.2, 0, 1, "Share of the delay by which it varies, up and down, between records."
    )
    share_retry_backoff_on: str = several(
        "release,timeout",
        ("release", "timeout", "session"),
        "Failed deliveries that delay a record: its release, the end of its acquisition lock, the end of the "
        "session or stream of its holder.",
    )

    @property
    def offset_reset(self) -> OffsetReset:
        """The parsed value of `share.auto.offset.reset`."""
        return OffsetReset.parse(self.share_auto_offset_reset)


GROUP_KEYS: Final[Mapping[str, Key]] = table(GroupConfig)
"""Every group property by name."""


def check_group(settings: Mapping[str, str], broker: BrokerConfig) -> None:
    """Checks all values that a group would have. Raises INVALID_CONFIG; Kafka: `GroupConfig.validate`."""
    parsed = parse_all(GROUP_KEYS, settings, "group config name")
    if "share_auto_offset_reset" in parsed:
        OffsetReset.parse(settings["share.auto.offset.reset"].strip())
    if str(parsed.get("errors_deadletterqueue_topic_name", "")).startswith("__"):
        raise invalid(DEAD_LETTER_TOPIC, f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")
    for name in settings:
        key = GROUP_KEYS[name]
        value, bounded = parsed[attribute(name)], _bounded(key, parsed[attribute(name)], broker)
        if value != bounded:
            limit = key.at_least if bounded > value else key.at_most  # type: ignore[operator]  # only numbers are bounded
            raise invalid(name, f"{name}={value} is outside the broker's limit {limit}={bounded}.")
    first, most = parsed.get("share_retry_backoff_ms", 0), parsed.get("share_retry_backoff_max_ms", 0)
    if 0 < int(most) < int(first):
        raise invalid(
            "share.retry.backoff.max.ms",
            f"share.retry.backoff.max.ms={most} must not be less than share.retry.backoff.ms={first}.",
        )
    if not _is_session_longer(parsed, broker):
        raise invalid(
            "share.session.timeout.ms",
            "share.heartbeat.interval.ms must be less than share.session.timeout.ms.",
        )


def resolve_group(settings: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
    """Returns the group's own values, within the broker's limits; else the broker's defaults.

    The limits may have changed since a value was accepted, so values are clamped, never rejected (Kafka 4.3).
    """
    parsed = parse_all(GROUP_KEYS, settings, "group config name")
    values: dict[str, Any] = {
        (field := attribute(name)): _bounded(key, parsed[field], broker)
        if field in parsed
        else broker.default(key)
        for name, key in GROUP_KEYS.items()
    }
    return GroupConfig(**values)


def _bounded(key: Key, value: Value, broker: BrokerConfig) -> Value:
    if not key.at_most or not isinstance(value, int):
        return value
    low = broker.get(key.at_least) if key.at_least else key.low
    return min(max(value, int(low)), int(broker.get(key.at_most)))


def _is_session_longer(parsed: Mapping[str, Value], broker: BrokerConfig) -> bool:
    session = parsed.get("share_session_timeout_ms", broker.group_share_session_timeout_ms)
    heartbeat = parsed.get("share_heartbeat_interval_ms", broker.group_share_heartbeat_interval_ms)
    return int(session) > int(heartbeat)
