"""One connection to a broker: set up, authenticated, and then a line of requests.

A broker answers the requests of a connection in their order, and works on one at a time: a long poll delays
what is sent behind it. A caller that waits for responses of both kinds uses two connections.

A connection ends as a whole. After an invalid response, a response that is late, or the end of the stream all
unanswered requests fail with NETWORK_EXCEPTION, and the owner opens another one. Nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.apis import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    ClientApi,
    Request,
    Response,
    Versions,
    version_to_retry,
)
from sharebroker_server.kafka_client.core.sasl import Credentials, Exchange, exchange
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from sharebroker_server.kafka_wire.schema import Message

SETUP_BYTES: Final = 1 << 20
"""Most bytes of a response before the broker has authenticated the client."""

LIFETIME_USED: Final = 0.85
"""The part of an authentication's lifetime after which the connection is replaced (Kafka: 0.85 to 0.95)."""

READ_LIMIT: Final = 1 << 20
"""Bytes that the stream buffers ahead of a read."""

_LENGTH_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4
_CORRELATIONS: Final = 2**31


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Settings of a connection, by Kafka's names; times in seconds.

    `login` returns credentials for a new connection, which may differ from the previous ones.
    `max_response_bytes` bounds a response. A caller that pipelines has at most `max_in_flight` requests
    without response.
    """

    client_id: str = "sharebroker"
    client_version: str = "unknown"
    tls: SSLContext | None = None
    login: Callable[[], Awaitable[Credentials]] | None = None
    setup_timeout: float = 10.0
    request_timeout: float = 30.0
    max_response_bytes: int = 100 << 20
    max_in_flight: int = 5


class BrokerConnection:
    """A connection that is ready for requests; create it with `open`.

    `versions` are those that the broker offers. `renew_at` is the time of the event loop at which the owner
    should open another connection, because the broker will end the authentication of this one (KIP-368); None
    if it will not.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: ConnectionSettings
    ) -> None:
        self.versions = Versions({})
        self.renew_at: float | None = None
        self._reader = reader
        self._writer = writer
        self._settings = settings
        self._max_bytes = SETUP_BYTES
        self._next_number = 0
        self._unanswered: deque[_Sent] = deque()
        self._room = asyncio.Semaphore(settings.max_in_flight)
        self._throttled_until = 0.0
        self._failure: KafkaError | None = None
        self._retired = False
        self._receiver = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, host: str, port: int, settings: ConnectionSettings) -> BrokerConnection:
        """Connects, negotiates versions and authenticates, all within `setup_timeout`.

        Raises:
            KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT; UNSUPPORTED_VERSION; as the broker rejects the
                credentials, UNSUPPORTED_SASL_MECHANISM or SASL_AUTHENTICATION_FAILED.
        """
        connection: BrokerConnection | None = None
        try:
            async with asyncio.timeout(settings.setup_timeout):
                reader, writer = await asyncio.open_connection(host, port, limit=READ_LIMIT, ssl=settings.tls)
                connection = cls(reader, writer, settings)
                await connection._set_up()
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError):
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{host}:{port} was not ready within {settings.setup_timeout:g} s.",
                ) from None
            if isinstance(error, OSError):  # also of TLS
                raise lost(f"The connection to {host}:{port} failed: {error}") from error
            raise
        return connection

    @property
    def closed(self) -> bool:
        """Whether the connection has ended; requests fail."""
        return self._failure is not None

    @property
    def unanswered(self) -> int:
        """The number of requests without a response."""
        return len(self._unanswered)

    async def request(
        self,
        api: ClientApi[Request, Response],
        message: Request,
        timeout: float | None = None,
        client_id: str | None = None,
    ) -> Response:
        """Sends a request in the highest common version and returns the response.

        `timeout` is in seconds, `request_timeout` by default. It includes the wait for a broker that
        throttles the client. A request that takes longer ends the connection, as in Kafka's clients.
        `client_id` is that of the settings by default.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, NETWORK_EXCEPTION, REQUEST_TIMED_OUT; THROTTLING_QUOTA_EXCEEDED
                if the broker throttles the client longer.
        """
        version = self.versions.of(api)
        seconds = self._settings.request_timeout if timeout is None else timeout
        response = await self._send(api, version, message, seconds, client_id)
        if api.throttled is not None and version >= api.throttled:
            self._throttle(getattr(response, "throttle_time_ms", 0))
        return cast("Response", response)

    def retire(self) -> None:
        """Ends the connection once no request waits for its response; the owner sends no more."""
        self._retired = True
        self._end_if_retired()

    def close(self) -> None:
        """Ends the connection; unanswered requests fail."""
        self._end(lost("The connection was closed."))

    # Setup

    async def _set_up(self) -> None:
        self.versions = Versions.of_response(await self._api_versions())
        if self._settings.login is not None:
            await self._authenticate(await self._settings.login())
        self._max_bytes = self._settings.max_response_bytes

    async def _api_versions(self) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name="sharebroker", client_software_version=self._settings.client_version
        )
        response = await self._offered(request, API_VERSIONS.last)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = await self._offered(request, version_to_retry(response))
        _check(response.error_code, "The broker rejects ApiVersions.")
        return response

    async def _offered(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        timeout = self._settings.setup_timeout
        return cast("ApiVersionsResponse", await self._send(API_VERSIONS, version, request, timeout))

    async def _authenticate(self, credentials: Credentials) -> None:
        steps = exchange(credentials, secrets.token_urlsafe(24))
        timeout = self._settings.setup_timeout
        answer = await self.request(
            SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=credentials.mechanism), timeout
        )
        enabled = ", ".join(answer.mechanisms)
        _check(answer.error_code, f"The broker has the mechanisms {enabled}, not {credentials.mechanism}.")
        token: bytes | None = next(steps)
        sent_at = asyncio.get_running_loop().time()
        while token is not None:
            message = SaslAuthenticateRequest(auth_bytes=token)
            response = await self.request(SASL_AUTHENTICATE, message, timeout)
            _check(response.error_code, response.error_message or "")
            # SCRAM derives keys from the password, which takes milliseconds.
            token = await asyncio.to_thread(_next_token, steps, response.auth_bytes)
            if response.session_lifetime_ms:
                self.renew_at = sent_at + response.session_lifetime_ms / 1000 * LIFETIME_USED

    # Requests

    async def _send(
        self,
        api: ClientApi[Any, Any],
        version: int,
        message: Message,
        timeout: float,
        client_id: str | None = None,
    ) -> Message:
        deadline = asyncio.get_running_loop().time() + timeout
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"The broker did not respond to {api.name} within {timeout:g} s."
        )
        try:
            async with asyncio.timeout_at(deadline):
                await self._turn(timeout)
        except TimeoutError:
            raise late from None
        if client_id is None:
            client_id = self._settings.client_id
        sent = self._write(api, version, message, client_id, deadline, late)
        try:
            await self._flush()
            return await sent.response
        finally:
            sent.response.cancel()  # without effect unless this caller was cancelled before it waited

    async def _turn(self, timeout: float) -> None:
        """Waits until the broker expects requests, and there is room for one.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED if the broker throttles the client longer than `timeout`.
        """
        pause = self._throttled_until - asyncio.get_running_loop().time()
        if pause >= timeout:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The broker accepts the next request in {pause:.1f} s.",
                retry_after=pause,
            )
        if pause > 0:
            await asyncio.sleep(pause)
        await self._room.acquire()

    def _write(
        self,
        api: ClientApi[Any, Any],
        version: int,
        message: Message,
        client_id: str,
        deadline: float,
        late: KafkaError,
    ) -> _Sent:
        if self._failure is not None:
            self._room.release()
            raise lost(self._failure.message)
        loop = asyncio.get_running_loop()
        number = self._next_number
        self._next_number = (number + 1) % _CORRELATIONS
        frame = request_frame(number, client_id, codec_of(api.key, version), message)
        response: asyncio.Future[Message] = loop.create_future()
        timer = loop.call_at(deadline, self._late, response, late)
        sent = _Sent(number, _reader(api, version), response, timer)
        self._unanswered.append(sent)
        self._writer.write(frame)
        return sent

    def _late(self, response: asyncio.Future[Message], error: KafkaError) -> None:
        """Ends the connection, also if the caller of the late request was cancelled."""
        if not response.done():
            response.set_exception(error)
        self._end(error)

    async def _flush(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            self._end(lost(f"The connection failed: {error}"))

    def _throttle(self, milliseconds: int) -> None:
        until = asyncio.get_running_loop().time() + milliseconds / 1000
        self._throttled_until = max(self._throttled_until, until)

    # Responses

    async def _receive(self) -> None:
        """Resolves requests with the responses, in order, until the connection ends."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), signed=True)
                if not _CORRELATION_BYTES <= size <= self._max_bytes:
                    raise BadMessage(f"A response of {size} bytes; up to {self._max_bytes} are allowed.")
                self._resolve(await self._reader.readexactly(size))
        except BadMessage as error:
            self._end(lost(f"The broker's response is invalid: {error}"))
        except asyncio.IncompleteReadError:
            self._end(lost("The broker closed the connection."))
        except OSError as error:
            self._end(lost(f"The connection failed: {error}"))

    def _resolve(self, frame: bytes) -> None:
        number = int.from_bytes(frame[:_CORRELATION_BYTES], signed=True)
        if not self._unanswered or self._unanswered[0].number != number:
            raise BadMessage(f"No request waits for the response {number}.")
        sent = self._unanswered[0]
        if not sent.response.done():  # else its caller was cancelled
            sent.response.set_result(sent.read(frame))
        self._remove_first()
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._retired and not self._unanswered:
            self.close()

    def _remove_first(self) -> _Sent:
        # A cancelled caller leaves its request in the line, where it has a place until the response arrives.
        self._room.release()
        sent = self._unanswered.popleft()
        sent.timer.cancel()
        return sent

    def _end(self, error: KafkaError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._receiver.cancel()
        self._writer.transport.abort()
        while self._unanswered:
            sent = self._remove_first()
            if not sent.response.done():
                sent.response.set_exception(lost(error.message))


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request that waits for its response; `read` decodes a frame, `timer` ends the wait."""

    number: int
    read: Callable[[bytes], Message]
    response: asyncio.Future[Message]
    timer: asyncio.TimerHandle


def lost(message: str) -> KafkaError:
    """Returns the error of a connection that ended or could not be opened."""
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, message)


def _reader(api: ClientApi[Any, Any], version: int) -> Callable[[bytes], Message]:
    if api is API_VERSIONS:
        return lambda frame: _read_api_versions(frame, version)
    codec = codec_of(api.key, version)
    return lambda frame: read_response(frame, codec)[1]


def _read_api_versions(frame: bytes, version: int) -> Message:
    """Returns the response; one with UNSUPPORTED_VERSION has the form of version 0 (KIP-511)."""
    error = int.from_bytes(frame[_CORRELATION_BYTES : _CORRELATION_BYTES + 2], signed=True)
    if error == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return read_response(frame, codec_of(API_VERSIONS.key, version))[1]


def _next_token(steps: Exchange, answer: bytes) -> bytes | None:
    """Returns the next token of a SASL exchange, None after the last one."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def _check(error_code: int, message: str) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code), message)
