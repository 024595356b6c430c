"""Whether leaders tell of traced records: what does so is imported, with OpenTelemetry, only then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sharebroker_protocol.clock import monotonic
from sharebroker_protocol.tracing import enabled
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.partition import SharePartition
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.partition.state_writes import StateWriter

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.tracing.partition_traces import (
        LeaderTraces,
        PartitionTraces,
    )

Maker = Callable[
    [str, str, PartitionLog, SharePartition, StateWriter, Callable[[ShareGroupPartition], None]],
    ShareGroupPartition,
]
"""What makes a share-partition: parameters as those of ShareGroupPartition."""


def leader_traces() -> LeaderTraces | None:
    """What is to be told of; None where this process does not trace."""
    if enabled.on is None:
        return None
    from sharebroker_server.share_partition_leader.tracing.partition_traces import LeaderTraces

    return LeaderTraces(enabled.on, monotonic)


def share_group_partition(traces: PartitionTraces | None) -> Maker:
    """What makes a share-partition of a partition with these traces."""
    if traces is None:
        return ShareGroupPartition
    from sharebroker_server.share_partition_leader.tracing.traced_partition import share_partition

    return partial(share_partition, traces)
