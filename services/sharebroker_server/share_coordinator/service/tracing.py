"""What the share coordinator tells of writes that belong to a trace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names
from sharebroker_server.share_coordinator.core.commands import Write

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import Tracer


def tell_of_write(tracer: Tracer, written: asyncio.Future[Any], asked: Write) -> None:
    """A span until the record is in the shard's log, where the call is part of a trace that is kept."""
    parent = tracer.current()
    if parent is None:
        return
    told: dict[str, str | int] = {
        names.SYSTEM: names.SHAREBROKER,
        names.OPERATION: "append state",
        names.GROUP: asked.key.group_id,
        names.PARTITION: str(asked.key.partition),
        "messaging.sharebroker.start_offset": asked.start_offset,
        "messaging.sharebroker.leader_epoch": asked.leader_epoch,
    }
    span = tracer.inner("append state", parent, told)
    if span is None:
        return

    def ended(future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        tracer.end(span, error if isinstance(error, KafkaError) else None)

    written.add_done_callback(ended)
