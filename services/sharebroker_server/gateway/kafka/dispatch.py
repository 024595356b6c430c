"""Decodes a request, calls its handler and encodes the response."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.api import api_versions
from sharebroker_server.gateway.kafka.call import (
    Api,
    Call,
    ClientConnection,
    FeatureDisabled,
    KafkaListener,
    Throttle,
    for_version,
)
from sharebroker_server.gateway.kafka.cluster_view import ClusterView
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import (
    API_VERSIONS,
    MessageCodec,
    RequestHeader,
    codec_of,
    read_header,
    read_request,
    request_in_portions,
    response_frame,
    response_in_portions,
)
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest, ApiVersionsResponse
from sharebroker_server.kafka_wire.schema import Message, api_schema
from sharebroker_server.security import audit
from sharebroker_server.security.authentication.sasl import illegal_state


class DecodedRequest(NamedTuple):
    """A request of `size` bytes after decoding."""

    size: int
    header: RequestHeader
    api: Api
    codec: MessageCodec
    call: Call[Any]

    def coalesces_with(self, earlier: DecodedRequest) -> bool:
        """Returns whether this request may be served in one step with an earlier one."""
        coalescing = self.api.coalescing
        return coalescing is not None and self.api is earlier.api and coalescing.fits(self.call, earlier.call)

    def origin(self) -> audit.RequestOrigin:
        """Returns where the request came from."""
        return audit.RequestOrigin(self.call.requester, "kafka", api_schema(self.api.key).name)


class EncodedResponse(NamedTuple):
    """A response, and its bytes with their length prefix."""

    message: Message
    content: bytearray


LARGE_REQUEST: Final = 32 * 1024
"""Bytes of a request beyond which it is decoded in portions."""

_AS_LARGE_AS_THE_REQUEST: Final = frozenset({0, 1, 78, 79})
"""Produce, Fetch, ShareFetch, ShareAcknowledge: if the request is not large, the response has few entries."""


async def decode_in_portions(
    listener: KafkaListener, client: ClientConnection, view: ClusterView, frame: bytes, queued_for: float
) -> DecodedRequest:
    """Decodes a large request; other requests are served in between. Raises as `decode` does."""
    header = read_header(frame)
    api = listener.apis.get(header.api_key)
    message = None
    if api is not None and api.versions[0] <= header.version <= api.versions[1]:
        codec = codec_of(header.api_key, header.version)
        message = await listener.gateway.turns.run(request_in_portions(frame, header, codec))
    return decode(listener, client, view, frame, queued_for, message)


def decode(
    listener: KafkaListener,
    client: ClientConnection,
    view: ClusterView,
    frame: bytes,
    queued_for: float = 0.0,
    message: Message | None = None,
) -> DecodedRequest:
    """Decodes a request that waited `queued_for` seconds in the response cache; `message` is decoded already.

    Raises BadMessage: close the connection.
    """
    header = read_header(frame)
    legal = client.sasl is None or client.sasl.admit(header.api_key, queued_for)
    api = listener.apis.get(header.api_key)
    if api is None:
        raise BadMessage(f"API key {header.api_key} is not served.")
    first, last = api.versions
    request: Message
    if first <= header.version <= last:
        codec = codec_of(header.api_key, header.version)
        request = read_request(frame, header, codec) if message is None else message
    elif header.api_key == API_VERSIONS:
        api, codec, request = _UNKNOWN_VERSION, codec_of(API_VERSIONS, 0), ApiVersionsRequest()
    else:
        name = api_schema(header.api_key).name
        raise BadMessage(f"{name} version {header.version} is not supported; {first} to {last} are.")
    if not legal:
        api = replace(api, handle=_illegal_state, waits=False, coalescing=None, predict=None)
    call = Call(listener, client, header.client_id or "", header.version, request, view, queued_for)
    return DecodedRequest(len(frame), header, api, codec, call)


async def serve(requests: Sequence[DecodedRequest]) -> list[EncodedResponse | None]:
    """Serves one request, or several that coalesce. Returns None for each without a response.

    Raises BadMessage: close the connection.
    """
    api, listener = requests[0].api, requests[0].call.listener
    listener.fetches_in_flight += api.waits
    listener.metrics.requests[api.key] += len(requests)
    throttle = listener.throttle if listener.gateway.catalog.catalog.quotas.size else None
    spent: list[float] = []
    begun = perf_counter()
    audit.serving(requests[0].origin)
    messages: Sequence[Message | None]
    try:
        try:
            if not listener.is_enabled(api):
                raise FeatureDisabled(str(api.feature))
            handling = _handling(api, requests)
            served = await (handling if throttle is None else throttle.timed(handling, spent))
            messages = [served] if api.coalescing is None else served
        except KafkaError as error:
            listener.metrics.failures[api.key] += len(requests)
            messages = [_refused(api, request.call, error) for request in requests]
        if throttle is not None:
            _throttle(throttle, requests, messages, sum(spent))
        return [await _encoded(request, message) for request, message in zip(requests, messages, strict=True)]
    except BadMessage:
        raise
    except Exception as error:  # any failure: its client gets a response, and other clients are not affected
        return await _failed(requests, error)
    finally:
        listener.fetches_in_flight -= api.waits
        listener.metrics.seconds[api.key].add_seconds(perf_counter() - begun)


def _handling(api: Api, requests: Sequence[DecodedRequest]) -> Coroutine[Any, Any, Any]:
    """Returns the handler's coroutine: its result is one message, or those of requests that coalesce."""
    if api.coalescing is None:
        return api.handle(requests[0].call)
    return api.coalescing.handle([request.call for request in requests])


def _throttle(
    throttle: Throttle, requests: Sequence[DecodedRequest], messages: Sequence[Message | None], spent: float
) -> None:
    """Charges requests to the quotas of their client, and states in the responses how long it must wait."""
    api, client = requests[0].api, requests[0].call.client
    share = spent / len(requests)
    for request, message in zip(requests, messages, strict=True):
        seconds = throttle.charge(request.call, api.key, request.size, message, share)
        client.throttled = max(client.throttled, seconds)
        if message is not None and seconds and hasattr(message, "throttle_time_ms"):
            message.throttle_time_ms = int(seconds * 1000) + 1


async def _failed(requests: Sequence[DecodedRequest], error: Exception) -> list[EncodedResponse | None]:
    api, listener = requests[0].api, requests[0].call.listener
    listener.log.log(
        "kafka request failed", failed=error, api=api_schema(api.key).name, version=requests[0].header.version
    )
    listener.metrics.failures[api.key] += len(requests)
    failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed; see its log for the cause.")
    return [await _encoded(request, _refused(api, request.call, failure)) for request in requests]


def _refused(api: Api, call: Call[Any], error: KafkaError) -> Message:
    code = for_version(api.key, call.version, error.code)
    if code is not error.code:
        error = KafkaError(code, error.message, metadata=error.metadata)
    return api.refuse(call, error)


async def _encoded(request: DecodedRequest, message: Message | None) -> EncodedResponse | None:
    if message is None:
        return None
    number, codec = request.header.correlation_id, request.codec
    if request.size <= LARGE_REQUEST and request.api.key in _AS_LARGE_AS_THE_REQUEST:
        return EncodedResponse(message, response_frame(number, codec, message))
    encoding = response_in_portions(number, codec, message)
    return EncodedResponse(message, await request.call.gateway.turns.run(encoding))


async def _illegal_state(_: Call[Any]) -> Message | None:
    raise illegal_state("The client must complete its authentication first.")


async def _supported_versions(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    apis = call.listener.enabled_apis()
    return api_versions.supported(apis, {}, 0, ErrorCode.UNSUPPORTED_VERSION)


_UNKNOWN_VERSION: Final = Api(API_VERSIONS, (0, 0), _supported_versions, api_versions.API.refuse)
"""For ApiVersions of an unknown version, Kafka responds in version 0; else it closes the connection."""
