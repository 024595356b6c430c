"""Whether leaders tell of traced records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libs.clock import monotonic
from sharebroker.tracing import switch

if TYPE_CHECKING:
    from services.share_partition_leader.service.traced_partition import LeaderTraces


def leader_traces() -> LeaderTraces | None:
    """What is to be told of; None where this process does not trace."""
    if switch.on is None:
        return None
    from services.share_partition_leader.service.traced_partition import LeaderTraces  # with OpenTelemetry

    return LeaderTraces(switch.on, monotonic)
