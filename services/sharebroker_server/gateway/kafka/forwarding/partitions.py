"""Requests that the leaders of partitions serve.

The partitions of upstream topics on which the client has the right go to their leaders. All others are served
by this broker, which also finds the errors of those without a right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.kafka.call import Api, Call, for_version
from sharebroker_server.gateway.kafka.forwarding.core.splitting import Shape, merge, split, without
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream, known_code
from sharebroker_server.gateway.kafka.topics import PORTION, upstream_topic
from sharebroker_server.kafka_client.cluster import STALE_METADATA
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.acl import AclOperation, AclResourceType

OWN: Final = -1
"""The target of partitions that this broker serves."""

NO_LEADER: Final = -2
"""The target of partitions whose leader is not known."""

UNREACHABLE: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
"""Errors of a leader that cannot be reached: clients look for another one."""

_HINTS: Final = ("current_leader", "preferred_read_replica")
"""Fields that name brokers of the cluster, which clients do not know."""


@dataclass(frozen=True, slots=True)
class LeaderApi:
    """An API whose requests name partitions. `api` serves those that are not forwarded.

    `response` is the class of the response. `operation` is what the client must be allowed to do to a topic.
    `failed` makes the result of a partition with an error. `prepare` changes a request before it is sent.
    """

    api: Api
    shape: Shape
    response: type[Message]
    operation: AclOperation
    failed: Callable[[Call[Any], Any, ErrorCode], Message]
    prepare: Callable[[Any], Any] = lambda request: request


async def targets(upstream: Upstream, call: Call[Any], served: LeaderApi) -> list[int]:
    """Returns the node that leads each partition of a request; OWN or NO_LEADER for others."""
    topics: list[Topic | None] = await call.gateway.turns.collect(
        (
            topic
            for requested in getattr(call.request, served.shape.topics)
            for topic in [_forwarded(call, served, requested)]
            for _ in getattr(requested, served.shape.partitions)
        ),
        PORTION,
    )
    found = [*_nodes(upstream, call, served, topics)]
    unknown = {topic.name for topic, node in zip(topics, found, strict=True) if topic and node == NO_LEADER}
    if unknown:
        try:
            await upstream.client.refresh_stale(*unknown)
        except KafkaError:
            return found
        found = [*_nodes(upstream, call, served, topics)]
    return found


def _topic(call: Call[Any], shape: Shape, requested: Any) -> Topic | None:
    return upstream_topic(call, getattr(requested, shape.name) or "", getattr(requested, "topic_id", ""))


def _forwarded(call: Call[Any], served: LeaderApi, requested: Any) -> Topic | None:
    """Returns the topic if it is in the upstream cluster, and the client has the right."""
    topic = _topic(call, served.shape, requested)
    if topic is None:
        return None
    return topic if call.rights.allows(served.operation, AclResourceType.TOPIC, topic.name) else None


def _nodes(
    upstream: Upstream, call: Call[Any], served: LeaderApi, topics: Sequence[Topic | None]
) -> Iterator[int]:
    metadata, index = upstream.client.metadata, served.shape.index
    for topic, (_, part) in zip(topics, served.shape.parts(call.request), strict=True):
        if topic is None or not 0 <= getattr(part, index) < topic.partitions:
            yield OWN
        else:
            leader = metadata.leader(topic.name, getattr(part, index))
            yield NO_LEADER if leader is None else leader.node_id


async def forward(
    upstream: Upstream, call: Call[Any], served: LeaderApi, node_id: int, request: Any, wait: float = 0.0
) -> Any:
    """Returns the response of a leader; without one each partition has an error."""
    if node_id == NO_LEADER:
        return refused(call, served, request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    try:
        response = await upstream.send(node_id, served.api.key, call, served.prepare(request), wait)
    except KafkaError as error:
        unreachable = error.code in UNREACHABLE
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if unreachable else error.code
        return refused(call, served, request, code)
    code = known_code(getattr(response, "error_code", 0))
    return refused(call, served, request, code) if code else response


async def serve_here(call: Call[Any], served: LeaderApi, request: Any) -> Any:
    """Returns this broker's response to a part of a request."""
    try:
        return await served.api.handle(replace(call, request=request))
    except KafkaError as error:
        return refused(call, served, request, error.code)


def refused(call: Call[Any], served: LeaderApi, request: Any, code: ErrorCode) -> Message:
    """Returns a response in which each partition has an error."""
    code = for_version(served.api.key, call.version, code)
    topics = merge(served.shape, request, (), lambda part: served.failed(call, part, code))
    return served.response(**{served.shape.responses: topics})


async def merged(upstream: Upstream, call: Call[Any], served: LeaderApi, responses: Sequence[Any]) -> Any:
    """Returns the response to a request, without hints about the cluster's brokers.

    After errors that another leader may solve, the metadata is read again before the client reads it.
    """

    def missing(part: Any) -> Message:
        return served.failed(call, part, ErrorCode.UNKNOWN_SERVER_ERROR)

    topics, stale = merge(served.shape, call.request, responses, missing), set()
    for topic, requested in zip(topics, getattr(call.request, served.shape.topics), strict=True):
        found = _topic(call, served.shape, requested)
        if found is None:
            continue
        results = getattr(topic, served.shape.results)
        results[:] = [without(result, *_HINTS) for result in results]
        if any(result.error_code in STALE_METADATA for result in results):
            stale.add(found.name)
    if stale:
        with suppress(KafkaError):  # the client tries again
            await upstream.client.refresh_stale(*stale)
    throttled = max((one.throttle_time_ms for one in responses), default=0)
    return served.response(**{served.shape.responses: topics, "throttle_time_ms": throttled})


async def handle(served: LeaderApi, upstream: Upstream, call: Call[Any]) -> Any:
    """Serves a request: each leader has a part of it, and this broker the rest."""
    parts = split(served.shape, call.request, await targets(upstream, call, served))
    if set(parts) <= {OWN}:
        return await served.api.handle(call)
    own = parts.pop(OWN, None)
    wait = max(getattr(call.request, "timeout_ms", 0), 0) / 1000
    responses = await asyncio.gather(
        *(forward(upstream, call, served, node, request, wait) for node, request in parts.items())
    )
    if own is not None:
        responses.append(await serve_here(call, served, own))
    return await merged(upstream, call, served, responses)
