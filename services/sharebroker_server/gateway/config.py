"""Limits of the gateway. Times are seconds, sizes bytes."""

from __future__ import annotations

from typing import Final

REQUEST_TIMEOUT: Final = 30.0
"""Time limit of a call without a deadline (Kafka: request.timeout.ms)."""

MAX_WAIT: Final = 60.0
"""Limit of the wait for records in one unary call."""

MOVED_WAIT: Final = 0.05
"""Limit of the wait for records of a session with partitions that another broker leads."""

SHARD_LOG_PATIENCE: Final = 5.0
"""Limit of the wait of an internal topic's reader for a shard without an owner."""

MAX_PUBLISH_RECORDS: Final = 10_000
MAX_ACQUIRE_RECORDS: Final = 1_000

MAX_PLAN_RECORDS: Final = 1_000_000
MAX_PLAN_RANGES: Final = 100_000
"""Limit of the ranges that one call may commit or renew."""
MAX_STAGED_RANGES: Final = 20_000
"""Limit of the ranges that one call may stage; the transaction coordinator stores no more for a batch."""

READ_RANGE_BYTES: Final = 1024 * 1024
MAX_READ_RANGE_BYTES: Final = 16 * 1024 * 1024
"""Default and limit of the bytes that `ReadRange` reads."""

PUBLISH_BATCH_BYTES: Final = 256 * 1024
"""Size at which `Publish` starts another batch of a partition."""

IN_FLIGHT_BYTES: Final = 16 * 1024 * 1024
"""Bytes that are not yet durable at which a ProduceStream is no longer read."""

UNSENT_MESSAGES: Final = 4
"""Messages that a Consume stream stores for a client that does not read; then its leaders wait."""

REBALANCE_INTERVAL: Final = 0.05
"""Interval at which idle credit of a consumer moves to other leaders."""

POLL_INTERVAL: Final = 0.05
"""Shortest interval between two rounds of a unary fetch from several leaders without records."""

CLOSE_TIMEOUT: Final = 10.0
"""Limit of the time in which leaders complete pending acknowledgements after a client's last message."""

VISIBLE_WITHIN: Final = 5.0
"""Limit of the wait until this process's metadata cache has a change."""

OTHERS_SEE_WITHIN: Final = 0.1
"""Time within which the metadata caches of other processes have a change."""

NAMED_WITHIN: Final = 2.0
"""Limit of the wait of Metadata for the id of a new cluster."""
