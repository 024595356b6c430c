"""From a request's bytes to its answer's."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.api import api_versions
from sharebroker_server.gateway.kafka.api.api_versions import supported
from sharebroker_server.gateway.kafka.cluster_view.brokers import View
from sharebroker_server.gateway.kafka.dispatch.api_table import available, is_on, served
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call, Client, Door
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import (
    API_VERSIONS,
    Codec,
    RequestHeader,
    codec,
    read_header,
    read_request,
    response_frame,
)
from sharebroker_server.kafka_wire.message_classes import Message
from sharebroker_server.kafka_wire.schema import api_schema


class Asked(NamedTuple):
    """A request of `size` bytes that has been read."""

    size: int
    header: RequestHeader
    api: Api
    how: Codec
    call: Call

    def joins(self, other: Asked) -> bool:
        """Whether it may be served in one step with another that came before it."""
        joined = self.api.joined
        return joined is not None and self.api is other.api and joined.fit(self.call, other.call)


class Answer(NamedTuple):
    """What is answered, and its bytes with their length in front."""

    message: Message
    content: bytearray


def read(door: Door, client: Client, view: View, frame: bytes, waited: float = 0.0) -> Asked:
    """Read a request that has `waited` seconds. Raises BadMessage: close the connection."""
    header = read_header(frame)
    api = served().get(header.api_key)
    if api is None:
        raise BadMessage(f"API key {header.api_key} is not served.")
    first, last = api.versions
    if first <= header.version <= last:
        how = codec(header.api_key, header.version)
        request = read_request(frame, header, how)
    elif header.api_key == API_VERSIONS:
        api, how, request = _NEWER, codec(API_VERSIONS, 0), None
    else:
        raise BadMessage(f"{api_schema(header.api_key).name} has no version {header.version} here.")
    call = Call(door, client, header.client_id or "", header.version, request, view, waited)
    return Asked(len(frame), header, api, how, call)


async def answer(asked: Sequence[Asked]) -> list[Answer | None]:
    """Serve a request, or several that join; None for each that gets no answer. Raises BadMessage."""
    api = asked[0].api
    door = asked[0].call.door
    door.fetches.number += api.waits
    door.counts.requests[api.key] += len(asked)
    begun = perf_counter()
    try:
        messages = await _serve(api, [one.call for one in asked])
        return [_framed(one, message) for one, message in zip(asked, messages, strict=True)]
    except BadMessage:
        raise
    except Exception as error:  # whatever it was, its client gets an answer and the others go on
        name = api_schema(api.key).name
        door.complaints.tell("a request failed", failed=error, api=name, version=asked[0].header.version)
        door.counts.failures[api.key] += len(asked)
        failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed; its log says why.")
        return [_framed(one, api.refuse(one.call, failure)) for one in asked]
    finally:
        door.fetches.number -= api.waits
        door.counts.seconds[api.key].add_seconds(perf_counter() - begun)


async def _serve(api: Api, calls: list[Call]) -> list[Message | None]:
    try:
        if not is_on(calls[0].door, api):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{api.feature} is 0: nothing of it is served.")
        if api.joined is not None:
            return await api.joined.handle(calls)
        return [await api.handle(call) for call in calls]
    except KafkaError as error:
        calls[0].door.counts.failures[api.key] += len(calls)
        return [api.refuse(call, error) for call in calls]


def _framed(asked: Asked, message: Message | None) -> Answer | None:
    if message is None:
        return None
    return Answer(message, response_frame(asked.header.correlation_id, asked.how, message))


async def _say_which(call: Call) -> Message:
    return supported(available(call.door), {}, 0, ErrorCode.UNSUPPORTED_VERSION)


_NEWER: Final = Api(API_VERSIONS, (0, 0), _say_which, api_versions.API.refuse)
"""Kafka answers an ApiVersions of an unknown version in version 0; anything else ends the connection."""
