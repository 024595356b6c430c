"""Produce and ProduceStream: send record batches to their partitions' leaders without changing them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_server.aio import Tasks
from sharebroker_server.catalog.topics import Topic, check_not_internal, check_topic_name
from sharebroker_server.gateway.admin.topics import create_missing
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.response_queue import UNSENT_MESSAGES, ResponseQueue
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult
from sharebroker_server.rpc.errors import refusal, wire

IN_FLIGHT_BYTES: Final = 16 * 1024 * 1024
"""Bytes that are not yet durable at which a ProduceStream is no longer read."""


_TopicRequest = tuple[pb.ProduceRequest.TopicData, Topic | None, KafkaError | None]
"""A topic of the request, and the topic or the error that was found for it."""


async def produce(gateway: Gateway, request: pb.ProduceRequest, deadline: Deadline) -> pb.ProduceResponse:
    """Appends the batches; each partition has its own durable result."""
    within = Deadline(min(request.timeout_ms / 1000 or REQUEST_TIMEOUT, deadline.remaining()))
    missing = _missing(gateway, request)
    failures = await create_missing(gateway, missing, within) if missing else {}
    topics = [_find(gateway, data, failures) for data in request.topic_data]
    named: set[tuple[str, int]] = set()
    parts = [[_part(topic, part, named) for part in topic[0].partition_data] for topic in topics]
    call = AppendCall(
        [part for some in parts for part in some if isinstance(part, AppendPart)],
        request.transactional_id,
        adds_partitions=True,
    )
    results = iter(await gateway.leaders.append(call, within))
    return pb.ProduceResponse(
        responses=[_response(topic, some, results) for topic, some in zip(topics, parts, strict=True)]
    )


def check_named_once(named: set[tuple[str, int]], topic_id: str, index: int) -> None:
    """Adds a partition to those that a request has named so far. Raises INVALID_REQUEST if it is one of them.

    One request would otherwise make the server do the work of many.
    """
    if (topic_id, index) in named:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The request names the partition more than once.")
    named.add((topic_id, index))


def _part(
    found: _TopicRequest, part: pb.ProduceRequest.PartitionData, named: set[tuple[str, int]]
) -> AppendPart | KafkaError:
    """Returns the part to append, or why it is not appended."""
    _, topic, error = found
    if topic is None or not 0 <= part.index < topic.partitions:
        return error or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        check_named_once(named, topic.topic_id, part.index)
    except KafkaError as again:
        return again
    return AppendPart(topic.topic_id, part.index, part.records)


def _missing(gateway: Gateway, request: pb.ProduceRequest) -> list[str]:
    """Returns the valid names of topics that do not exist, each once."""
    names = dict.fromkeys(data.name for data in request.topic_data if not data.topic_id)
    return [name for name in names if gateway.catalog.topic(name) is None and _is_valid(name)]


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
        check_not_internal(name)
    except KafkaError:
        return False
    return True


def _find(
    gateway: Gateway, data: pb.ProduceRequest.TopicData, failures: Mapping[str, KafkaError | None]
) -> _TopicRequest:
    """Returns a topic, or its error; `failures` are those of topics that could not be created."""
    try:
        return data, _topic(gateway, data), None
    except KafkaError as error:
        return data, None, failures.get(data.name) or error


def _topic(gateway: Gateway, data: pb.ProduceRequest.TopicData) -> Topic:
    topic = _named(gateway, data)
    gateway.catalog.catalog.check_own(topic)
    return topic


def _named(gateway: Gateway, data: pb.ProduceRequest.TopicData) -> Topic:
    if not data.topic_id:
        check_topic_name(data.name)
        check_not_internal(data.name)
        return gateway.topic(data.name)
    check_not_internal(data.name, data.topic_id)
    topic = gateway.catalog.topic_by_id(data.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if data.name and data.name != topic.name:
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
    return topic


def _response(
    request: _TopicRequest, parts: Sequence[AppendPart | KafkaError], results: Iterator[AppendResult]
) -> pb.ProduceResponse.TopicResponse:
    data, topic, _ = request
    response = pb.ProduceResponse.TopicResponse(
        topic_id=topic.topic_id if topic else data.topic_id, name=topic.name if topic else data.name
    )
    for requested, part in zip(data.partition_data, parts, strict=True):
        if isinstance(part, AppendPart):
            response.partition_responses.append(_partition_response(part.partition, next(results)))
        else:
            response.partition_responses.add(index=requested.index, **refusal(part), base_offset=-1)
    return response


def _partition_response(index: int, result: AppendResult) -> pb.ProduceResponse.PartitionResponse:
    return pb.ProduceResponse.PartitionResponse(
        index=index,
        error_code=wire(result.error_code),
        error_message=result.error_message,
        base_offset=-1 if result.error_code else result.base_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
    )


Serve = Callable[[Gateway, pb.ProduceRequest, Deadline], Awaitable[pb.ProduceResponse]]


async def produce_stream(
    gateway: Gateway,
    requests: AsyncIterator[tuple[pb.ProduceStreamRequest, int]],
    serve: Serve = produce,
    check: Callable[[], None] = lambda: None,
) -> AsyncGenerator[pb.ProduceStreamResponse, None]:
    """Serves a ProduceStream until the client half-closes it and every request has its response.

    `requests` are those of the client with their sizes in bytes. `serve` appends a request's batches. The
    stream ends with the error of `check` when permissions change.
    """
    stream = _ProduceStream(gateway, serve)
    with gateway.rechecks.during(check, stream.queue.fail):
        try:
            stream.start(requests)
            async for response in stream.queue:
                yield response
        finally:
            await stream.stop()


class _ProduceStream:
    """Appends each partition's batches in the order of the requests.

    A request waits for earlier requests that name one of its partitions, because those may be retried. The
    client is read only while less than IN_FLIGHT_BYTES are in flight.
    """

    def __init__(self, gateway: Gateway, serve: Serve) -> None:
        self.queue: ResponseQueue[pb.ProduceStreamResponse] = ResponseQueue(UNSENT_MESSAGES)
        self._gateway = gateway
        self._serve = serve
        self._tasks = Tasks(self.queue.fail)
        self._last: dict[tuple[str, int], asyncio.Event] = {}
        self._in_flight = 0
        self._completed = asyncio.Event()

    def start(self, requests: AsyncIterator[tuple[pb.ProduceStreamRequest, int]]) -> None:
        self._tasks.spawn(self._read(requests))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _read(self, requests: AsyncIterator[tuple[pb.ProduceStreamRequest, int]]) -> None:
        async for request, size in requests:
            await self._until_below(IN_FLIGHT_BYTES)
            self._in_flight += size
            self._tasks.spawn(self._produce(request, size))
        await self._until_below(1)
        await self.queue.end()

    async def _until_below(self, limit: int) -> None:
        while self._in_flight >= limit:
            self._completed.clear()
            await self._completed.wait()

    async def _produce(self, request: pb.ProduceStreamRequest, size: int) -> None:
        partitions = {
            (topic.topic_id or topic.name, part.index)
            for topic in request.produce.topic_data
            for part in topic.partition_data
        }
        before = {self._last[partition] for partition in partitions if partition in self._last}
        done = asyncio.Event()
        self._last |= dict.fromkeys(partitions, done)
        try:
            for earlier in before:
                await earlier.wait()
            response = await self._serve(self._gateway, request.produce, Deadline(REQUEST_TIMEOUT))
        finally:
            done.set()
            for partition in partitions:
                if self._last[partition] is done:
                    del self._last[partition]
        await self.queue.put(pb.ProduceStreamResponse(id=request.id, produce=response))
        self._in_flight -= size
        self._completed.set()
