"""Whether leaders tell of traced records: what does so is imported, with OpenTelemetry, only then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from libs.clock import monotonic
from libs.record_log.partition_log import PartitionLog
from services.share_partition_leader.core.partition import SharePartition
from services.share_partition_leader.service.share_group_partition import ShareGroupPartition
from services.share_partition_leader.service.writing import StateWriter
from sharebroker.tracing import switch

if TYPE_CHECKING:
    from services.share_partition_leader.service.partition_traces import LeaderTraces, PartitionTraces

Maker = Callable[
    [str, str, PartitionLog, SharePartition, StateWriter, Callable[[ShareGroupPartition], None]],
    ShareGroupPartition,
]
"""What makes a share-partition: parameters as those of ShareGroupPartition."""


def leader_traces() -> LeaderTraces | None:
    """What is to be told of; None where this process does not trace."""
    if switch.on is None:
        return None
    from services.share_partition_leader.service.partition_traces import LeaderTraces

    return LeaderTraces(switch.on, monotonic)


def share_group_partition(traces: PartitionTraces | None) -> Maker:
    """What makes a share-partition of a partition with these traces."""
    if traces is None:
        return ShareGroupPartition
    from services.share_partition_leader.service.traced_partition import share_partition

    return partial(share_partition, traces)
