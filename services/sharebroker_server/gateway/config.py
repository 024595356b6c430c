"""Limits of the gateway. Times are seconds, sizes bytes."""

from __future__ import annotations

from typing import Final

REQUEST_TIMEOUT: Final = 30.0
"""The time of a call whose client gave no deadline (Kafka: request.timeout.ms)."""

MAX_WAIT: Final = 60.0
"""Longest wait for records in one unary call."""

MOVED_WAIT: Final = 0.05
"""Longest wait for records of a session with partitions that clients are to ask another broker for."""

SHARD_LOG_PATIENCE: Final = 5.0
"""How long a reader of an internal topic waits for a shard that nobody owns at the moment."""

MAX_PUBLISH_RECORDS: Final = 10_000
MAX_ACQUIRE_RECORDS: Final = 1_000

MAX_PLAN_RECORDS: Final = 1_000_000
MAX_PLAN_RANGES: Final = 100_000
"""Ranges that one call may commit or renew."""
MAX_STAGED_RANGES: Final = 20_000
"""Ranges that one call may stage; the transaction coordinator keeps no more for a batch."""

READ_RANGE_BYTES: Final = 1024 * 1024
MAX_READ_RANGE_BYTES: Final = 16 * 1024 * 1024
"""`ReadRange` reads about this much, unless it is asked for something else."""

PUBLISH_BATCH_BYTES: Final = 256 * 1024
"""`Publish` starts another batch of a partition at about this size."""

IN_FLIGHT_BYTES: Final = 16 * 1024 * 1024
"""A ProduceStream is not read any further while this much is not durable yet."""

UNSENT_MESSAGES: Final = 4
"""A Consume stream holds this many messages for a client that does not read; then its leaders wait."""

UNREAD_MESSAGES: Final = 16
"""As many messages of a client wait for a leader; then the client is not read any further."""

REBALANCE_INTERVAL: Final = 0.05
"""How often idle credit of a consumer moves on to other leaders."""

POLL_INTERVAL: Final = 0.05
"""How often, at most, a unary fetch from several leaders asks them again while none has records."""

CLOSE_TIMEOUT: Final = 10.0
"""How long leaders may take to answer what is under way when a client has sent its last message."""

VISIBLE_WITHIN: Final = 5.0
"""How long a change of the catalog is waited for in this process's own view of it."""

OTHERS_SEE_WITHIN: Final = 0.1
"""By then the other processes have followed a change of the catalog, too."""

NAMED_WITHIN: Final = 2.0
"""How long Metadata waits for the id of a cluster that is just beginning."""
