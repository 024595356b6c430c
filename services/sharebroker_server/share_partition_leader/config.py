"""A group's configuration in the units of the core, and the leader's own limits."""

from __future__ import annotations

from typing import Final

from sharebroker_server.config.group import GroupConfig
from sharebroker_server.share_partition_leader.core.values import SharePartitionSettings

DELIVERY_BYTES: Final = 1 << 20
"""Most bytes of record batches in one delivery; one batch goes out however large it is."""

DEFAULT_BATCH_SIZE: Final = 500
"""Kafka's `max.poll.records`: acquired runs have about this many records."""

MESSAGE_BYTES: Final = 4 << 20
"""A message to a consumer is closed once it holds this many bytes of record batches."""

UNSENT_ENTRIES: Final = 20_000
"""A stream whose client does not read is not read from any further beyond this many results and the like."""

REASON_LENGTH: Final = 500
"""So many characters of the reason for a rejection go into the log."""

ACKNOWLEDGE_TIMEOUT: Final = 60.0
"""Seconds in which acknowledgements from another process are answered; their caller has its own limit."""

RETRY_DELAY: Final = 0.1
"""Seconds before a share-partition that could not be loaded is tried again; doubles each time."""

LONGEST_RETRY_DELAY: Final = 2.0
"""The same, at most; also before whatever else failed is tried again."""

STOP_TIMEOUT: Final = 5.0
"""Seconds that a share-partition has for its last writes when its partition goes to another process."""

CATALOG_LAG: Final = 0.3
"""Seconds that a new topic may take to reach every process."""


def share_partition_settings(config: GroupConfig) -> SharePartitionSettings:
    """What the core is told of a group's configuration; durations in seconds."""
    return SharePartitionSettings(
        delivery_count_limit=config.share_delivery_count_limit,
        lock_duration=config.share_record_lock_duration_ms / 1000,
        max_record_locks=config.share_partition_max_record_locks,
        renew_enabled=config.share_renew_acknowledge_enable,
        read_committed=config.share_isolation_level == "read_committed",
    )
