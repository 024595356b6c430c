"""Fetch: records of upstream topics come from their leaders.

Every fetch is a full one. A request whose partitions have one leader waits there. If several brokers serve
it, it is repeated at each of them without a wait there, until one of them has records.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.aio import doubling
from sharebroker_server.gateway.core.validation import MAX_WAIT
from sharebroker_server.gateway.kafka.api import fetch
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.core.splitting import Shape, replaced, split, without
from sharebroker_server.gateway.kafka.forwarding.partitions import (
    OWN,
    LeaderApi,
    forward,
    merged,
    serve_here,
    targets,
)
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.acl import AclOperation

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.1
"""Seconds between two looks at several brokers."""

_FULL_EPOCH: Final = -1
"""The session epoch of a fetch that opens no session (KIP-227)."""

_OF_FOLLOWERS: Final = ("replica_id", "replica_state", "rack_id", "session_id", "forgotten_topics_data")
"""Fields with which a follower identifies itself, or a client asks for one, and those of sessions."""


def _failed(call: Call[Any], part: Any, code: ErrorCode) -> Message:
    return fetch.failed(part.partition, code, call.version)


def _of_a_client(request: FetchRequest) -> FetchRequest:
    """Returns a full fetch of a client: it is authorized by this broker's own identity."""
    return replaced(without(request, *_OF_FOLLOWERS), replica_id=-1, session_epoch=_FULL_EPOCH)


FETCH: Final = LeaderApi(
    fetch.API,
    Shape(
        FetchResponse.FetchableTopicResponse,
        index="partition",
        name="topic",
        responses="responses",
        result_name="topic",
    ),
    FetchResponse,
    AclOperation.READ,
    _failed,
    _of_a_client,
)


async def handle_fetch(upstream: Upstream, call: Call[FetchRequest]) -> FetchResponse:
    """Returns one result per partition. Raises FETCH_SESSION_ID_NOT_FOUND."""
    fetch.check_full(call.request)
    nodes = await targets(upstream, call, FETCH)
    if set(nodes) <= {OWN}:
        return await fetch.handle(call)
    wait = min(max(call.request.max_wait_ms, 0) / 1000, MAX_WAIT)
    limited = replaced(
        call.request,
        max_wait_ms=int(wait * 1000),
        max_bytes=max(call.limit_bytes(call.request.max_bytes) // len(set(nodes)), 1),
    )
    parts = split(FETCH.shape, limited, nodes)
    if len(parts) == 1:
        ((node_id, request),) = parts.items()
        response = await forward(upstream, call, FETCH, node_id, request, wait)
        answered: FetchResponse = await merged(upstream, call, FETCH, [response])
        return answered
    return await _from_several(upstream, call, parts, wait)


async def _from_several(
    upstream: Upstream, call: Call[FetchRequest], parts: dict[int, FetchRequest], wait: float
) -> FetchResponse:
    deadline, pauses = Deadline(wait), doubling(FIRST_PAUSE, LONGEST_PAUSE)
    at_once = {node_id: replaced(request, max_wait_ms=0) for node_id, request in parts.items()}
    while True:
        responses = await asyncio.gather(
            *(_from_one(upstream, call, node_id, request) for node_id, request in at_once.items())
        )
        remaining = deadline.remaining()
        if not remaining or any(map(_ends_wait, responses)):
            found: FetchResponse = await merged(upstream, call, FETCH, responses)
            return found
        await asyncio.sleep(min(next(pauses), remaining))


async def _from_one(upstream: Upstream, call: Call[FetchRequest], node_id: int, request: FetchRequest) -> Any:
    if node_id == OWN:
        return await serve_here(call, FETCH, request)
    return await forward(upstream, call, FETCH, node_id, request)


def _ends_wait(response: Any) -> bool:
    """Returns whether a response has records, or an error that the client must see at once."""
    if response.throttle_time_ms:
        return True
    results = (result for topic in response.responses for result in topic.partitions)
    return any(
        result.records or (result.error_code and result.error_code not in fetch.SENT_AFTER_WAIT)
        for result in results
    )
