"""The Deliver RPC: messages of both directions of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls import messages
from sharebroker_server.leader_calls.values import DeliverStream
from sharebroker_server.share_partition_leader.requests.checks import check_open
from sharebroker_server.share_partition_leader.requests.local_leader import LocalLeader


async def deliver(
    leader: LocalLeader, requests: AsyncIterator[pb.DeliverRequest]
) -> AsyncIterator[pb.DeliverResponse]:
    """Yields what a leader delivers on a stream that the first request opens. Raises INVALID_REQUEST."""
    opening = await anext(requests, pb.DeliverRequest())
    check_open(opening.open)
    stream = leader.deliver(messages.deliver_open(opening.open))
    reader: asyncio.Task[None] | None = None
    try:
        await stream.send(messages.deliver_input(opening))
        reader = asyncio.create_task(_read(stream, requests))
        async with aclosing(stream.outputs()) as outputs:
            async for output in outputs:
                response = pb.DeliverResponse()
                messages.fill_delivered(response, output)
                yield response
        await reader
    finally:
        stream.close()
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


async def _read(stream: DeliverStream, requests: AsyncIterator[pb.DeliverRequest]) -> None:
    try:
        async for request in requests:
            await stream.send(messages.deliver_input(request))
    finally:
        stream.finish()
