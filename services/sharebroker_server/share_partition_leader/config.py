"""A group's configuration in the units of the core, and limits of the leader."""

from __future__ import annotations

from typing import Final

from sharebroker_server.config.group import GroupConfig
from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings

DELIVERY_BYTES: Final = 1 << 20
"""Most bytes of record batches in one delivery; the first batch is delivered whatever its size."""

DEFAULT_BATCH_SIZE: Final = 500
"""Kafka's `max.poll.records`: acquired ranges have about this many records."""

MESSAGE_BYTES: Final = 4 << 20
"""Bytes of record batches after which a message to a consumer is complete."""

UNSENT_ENTRIES: Final = 20_000
"""Unsent results and notifications beyond which no more requests are read from a stream."""

REASON_LENGTH: Final = 500
"""Characters of a rejection's reason that are logged."""

ACKNOWLEDGE_TIMEOUT: Final = 60.0
"""Seconds before acknowledgements from another process time out; the caller has a limit of its own."""

RETRY_DELAY: Final = 0.1
"""Seconds before the load of a share-partition is retried; doubles each time."""

LONGEST_RETRY_DELAY: Final = 2.0
"""The longest RETRY_DELAY; also the delay before other retries."""

STOP_TIMEOUT: Final = 5.0
"""Seconds that a share-partition has for its last writes when its partition is handed over."""

CATALOG_LAG: Final = 0.3
"""Seconds in which a new topic reaches every metadata cache."""


def share_partition_settings(config: GroupConfig) -> SharePartitionSettings:
    """Returns a group's configuration for the core; durations in seconds."""
    return SharePartitionSettings(
        delivery_count_limit=config.share_delivery_count_limit,
        lock_duration=config.share_record_lock_duration_ms / 1000,
        max_record_locks=config.share_partition_max_record_locks,
        renew_enabled=config.share_renew_acknowledge_enable,
        read_committed=config.share_isolation_level == "read_committed",
    )
