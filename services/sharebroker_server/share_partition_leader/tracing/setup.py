"""Creates the traces of a leader. OpenTelemetry is imported only in a process that traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharebroker_protocol import tracing
from sharebroker_protocol.clock import monotonic
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import Observer

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.tracing.partition_traces import (
        LeaderTraces,
        PartitionTraces,
    )


def leader_traces() -> LeaderTraces | None:
    """Returns the traces of this process; None if it does not trace."""
    if tracing.on is None:
        return None
    from sharebroker_server.share_partition_leader.tracing.partition_traces import LeaderTraces

    return LeaderTraces(tracing.on, monotonic)


def record_spans(traces: PartitionTraces | None, group_id: str) -> Observer | None:
    """Returns the observer of one group's share-partition; None if this process does not trace."""
    if traces is None:
        return None
    from sharebroker_server.share_partition_leader.tracing.record_spans import RecordSpans

    return RecordSpans(traces, group_id)
