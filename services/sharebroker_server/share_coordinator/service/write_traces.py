"""Spans of state writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names
from sharebroker_server.share_coordinator.core.commands import Write

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import Tracer


def trace_write(tracer: Tracer, written: asyncio.Future[Any], write: Write) -> None:
    """Records a span from the request to the append, if the request belongs to a sampled trace."""
    parent = tracer.current()
    if parent is None:
        return
    attributes: dict[str, str | int] = {
        names.SYSTEM: names.SHAREBROKER,
        names.OPERATION: "append state",
        names.GROUP: write.key.group_id,
        names.PARTITION: str(write.key.partition),
        "messaging.sharebroker.start_offset": write.start_offset,
        "messaging.sharebroker.leader_epoch": write.leader_epoch,
    }
    span = tracer.inner("append state", parent, attributes)
    if span is None:
        return

    def ended(future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        tracer.end(span, error if isinstance(error, KafkaError) else None)

    written.add_done_callback(ended)
