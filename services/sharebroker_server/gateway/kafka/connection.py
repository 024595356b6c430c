"""One client's connection.

Theory of operation
-------------------

A connection serves its requests one after the other and sends the responses in the same order, as Kafka
requires. Data flows

    transport -> RequestBuffer (splits bytes into frames, bounds memory) -> `_serve_next` -> ResponseBuffer ->
    transport

with three independent kinds of back-pressure: the RequestBuffer pauses reading while requests wait or the
memory budget is used up; `_serve_next` waits for the ResponseBuffer while the client does not read; `check`
disconnects a client that stalls either of them. The memory budget evicts a client whose large request is
incomplete while others wait for memory.

* There is a task (`task`) only while requests are buffered, so an idle client costs no task. `_advance`
  starts it and is called after every event: bytes, end of file, loss, close, end of the task.
* With `listener.sasl` the client must authenticate (see `authentication.py`): `decode` admits a request or
  not, and until then requests are limited to `sasl.server.max.receive.size` bytes.
* After each response the API may predict the next request (see `response_cache.py`). Bytes go to the
  prediction first, but only while nothing else is pending, so that responses keep their order.
* Closing has steps, each idempotent: `_closing` stops reading and cancels a long poll; any other request is
  finished; then `hang_up` flushes and closes the transport, or the connection stays open until the listener
  closes it (`_stays_open`); `connection_lost` ends the share sessions and calls `ended` exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, cast

from sharebroker_server.gateway.kafka.authentication import AUTHENTICATION_TIMEOUT, SaslSession
from sharebroker_server.gateway.kafka.buffers import (
    MemoryBudget,
    RequestBuffer,
    ResponseBuffer,
    UnreadResponses,
)
from sharebroker_server.gateway.kafka.call import ClientConnection, KafkaListener, PredictedRequest
from sharebroker_server.gateway.kafka.cluster_view import ClusterView
from sharebroker_server.gateway.kafka.dispatch import (
    LARGE_REQUEST,
    DecodedRequest,
    EncodedResponse,
    decode,
    decode_in_portions,
    serve,
)
from sharebroker_server.gateway.share.session_end import release_session_records
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping

_numbers = count(1)

REQUESTS_PER_TURN: Final = 16
"""Maximum number of requests of one client that are served before other clients are served."""

MAX_COALESCED: Final = 32
"""Maximum number of requests served in one step."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of connections.

    `stall_timeout` (seconds) applies to incomplete requests and to unread responses. `max_idle` (seconds)
    applies to clients without requests; None means no limit. With `certificates` each client has a verified
    certificate, and the rules must give it a principal.
    """

    max_request_bytes: int
    requests: MemoryBudget
    responses: UnreadResponses
    max_idle: float | None
    stall_timeout: float = 30.0
    certificates: PrincipalMapping | None = None

    @property
    def quiet_period(self) -> float:
        """Seconds after its last bytes in which a client without pending data cannot exceed any limit."""
        return self.stall_timeout if self.max_idle is None else min(self.stall_timeout, self.max_idle)


class KafkaConnection(asyncio.Protocol):
    """The protocol of one client's transport.

    `begun` is called when the connection is made, after the handshake of TLS if any, and `ended` when it has
    ended; both once, and neither after a failed handshake. The listener calls `check` regularly.
    """

    def __init__(
        self,
        listener: KafkaListener,
        limits: ConnectionLimits,
        begun: Callable[[KafkaConnection], None],
        ended: Callable[[KafkaConnection], None],
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._listener = listener
        self._gateway = listener.gateway
        self._limits = limits
        self._begun = begun
        self._ended = ended
        sasl = None if listener.sasl is None else SaslSession(listener.sasl)
        self._client = ClientConnection(f"kafka-{next(_numbers)}", "", sasl=sasl)
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self._predicted: PredictedRequest | None = None
        self._queued_for = 0.0
        self._waiting = False
        self._made = False
        self._closing = False
        self._stays_open = False
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts to serve the client."""
        self._transport = cast("asyncio.Transport", transport)
        limits = self._limits
        evict = partial(self._disconnect, "a large request is incomplete while others wait for its memory")
        self._requests = RequestBuffer(self._transport, limits.max_request_bytes, limits.requests, evict)
        if self._listener.sasl is not None and self._listener.sasl.authenticator.required:
            self._requests.limit(self._listener.sasl.max_receive_size)
        make_room = partial(self._disconnect, "unread responses exceed the shared limit")
        self._responses = ResponseBuffer(self._transport, limits.responses, make_room)
        peer = transport.get_extra_info("peername")
        self._client.host = f"/{peer[0]}" if peer else "/unknown"
        self._made = True
        self._begun(self)
        throttle = self._listener.throttle
        if throttle is not None and not throttle.connected(self._client):
            self._closing = True
            self._disconnect("its address opens connections faster than its quota permits")
        self._tls = transport.get_extra_info("sslcontext") is not None
        if limits.certificates is not None:
            self._identify(limits.certificates)
        if self._closing:
            self._advance()

    def _identify(self, certificates: PrincipalMapping) -> None:
        """Reads the principal of the client's certificate; disconnects a client that has none."""
        encryption = self._transport.get_extra_info("ssl_object")
        certificate = None if encryption is None else encryption.getpeercert(binary_form=True)
        self._client.owner = certificates.principal(certificate) if certificate else None
        if self._client.owner is None:
            self._disconnect("no rule of ssl.principal.mapping.rules applies to the certificate")

    def data_received(self, data: bytes) -> None:
        """Serves the requests that the bytes complete."""
        if self._closing:
            return
        self._active_at = self._loop.time()
        if self._predicted is not None and self._is_predicted(self._predicted, data):
            return
        try:
            self._requests.add(data, self._active_at)
        except BadMessage as error:
            self._log_close(str(error))
            self._closing = True
        self._advance()

    def eof_received(self) -> bool:
        """Cancels a long poll and finishes the other received requests.

        Without TLS the transport stays open for responses.
        """
        self._closing = True
        self._advance()
        return not self._tls

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels a long poll; any other running request is finished first."""
        self._lost = True
        self._responses.resume()
        self.close()

    def pause_writing(self) -> None:
        """Only marks the response buffer as full; `_serve_next` waits until it is not."""
        self._responses.pause(self._loop.time())

    def resume_writing(self) -> None:
        """Marks the response buffer as not full: the client has read."""
        self._responses.resume()

    def close(self, *, hang_up: bool = True) -> None:
        """Stops serving: cancels a long poll, finishes any other request, then hangs up if `hang_up`."""
        self._closing = True
        self._stays_open = not hang_up
        if self._made:
            self._requests.close()
            self._advance()

    def hang_up(self) -> None:
        """Closes the transport after the responses are sent."""
        if self._made:
            self._responses.flush()
            self._transport.close()
        else:
            self.close()

    def check(self, now: float) -> None:
        """Disconnects a stalled or idle client."""
        if not self._made:  # the client is new, or in its TLS handshake, which has a time-out of its own
            return
        limits = self._limits
        sasl = self._client.sasl
        if sasl is not None and sasl.overdue:
            self._disconnect(f"not authenticated within {AUTHENTICATION_TIMEOUT:g} s")
            return
        if now - self._active_at < limits.quiet_period and self._requests.empty and not self._responses.full:
            return
        if self._responses.stalled(now, limits.stall_timeout):
            self._disconnect("client does not read responses")
        elif self._requests.unfinished_for(now) > limits.stall_timeout:
            self._disconnect(f"request incomplete for {limits.stall_timeout:g} s")
        elif self._is_idle and limits.max_idle is not None and now - self._active_at > limits.max_idle:
            self._disconnect("idle longer than connections.max.idle.ms")

    @property
    def _is_idle(self) -> bool:
        return self.task is None and not (self._predicted is not None and self._predicted.waiting)

    def _is_predicted(self, predicted: PredictedRequest, data: bytes) -> bool:
        """Passes the bytes to the prediction; returns whether it accepted them."""
        if predicted.waiting:  # further bytes: the waiting request must be served before them
            predicted.dispatch()
            return False
        if self._client.sasl is not None and self._client.sasl.over:
            return False  # `decode` rejects it
        return (
            self.task is None and self._requests.empty and not self._responses.full and predicted.accept(data)
        )

    def _reply(self, content: bytearray) -> None:
        self._active_at = self._loop.time()
        self._responses.write(content, more=False)

    def _dispatch(self, data: bytes, queued_for: float) -> None:
        """Serves a predicted request after something changed."""
        self._queued_for = queued_for
        self._requests.add(data, self._loop.time())
        self._advance()

    def _advance(self) -> None:
        """Takes the next step: starts the task, cancels a long poll, or closes."""
        if self._closing and self._predicted is not None:
            self._predicted.cancel()
            self._predicted = None
        if self.task is not None:
            if self._closing and self._waiting:
                self.task.cancel()
        elif self._requests:
            self.task = self._loop.create_task(self._serve())
        elif self._lost or self._stays_open:
            for session in self._gateway.sessions.disconnect(self._client.connection):
                release_session_records(self._gateway, session)  # releases its records, as Kafka does
            if self._lost:
                self._ended(self)
        elif self._closing:
            self.hang_up()

    async def _serve(self) -> None:
        served = 0
        try:
            while self._requests:
                await self._serve_next()
                served += 1
                if served % REQUESTS_PER_TURN == 0:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # the following requests would fail as well
            if isinstance(error, BadMessage):
                self._log_close(str(error))
            else:
                self._listener.log.log("kafka connection failed", failed=error, client=self._client.host)
            self._closing = True
            self._requests.close()
        finally:
            self.task = None
            self._waiting = False
            self._active_at = self._loop.time()
            self._advance()

    async def _serve_next(self) -> None:
        """Serves the oldest request, and those that coalesce with it; a wait is skipped while closing."""
        requests = await self._next(await self._listener.brokers.view())
        try:
            self._waiting = requests[0].api.waits
            if not (self._waiting and self._closing):
                responses = await serve(requests)
                self._waiting = False
                self._predict(requests[0], responses[0])
                self._write(responses)
                self._check_authentication()
                await self._mute()
        finally:
            self._requests.done(sum(request.size for request in requests))
        await self._responses.drained()

    async def _mute(self) -> None:
        """Serves nothing while the client is over its quotas; closing ends the wait."""
        seconds, self._client.throttled = self._client.throttled, 0.0
        if seconds and not self._closing:
            self._responses.flush()
            self._waiting = True
            await asyncio.sleep(seconds)
            self._waiting = False

    def _check_authentication(self) -> None:
        """Closes the connection after a failed authentication; permits large requests after success."""
        sasl = self._client.sasl
        if sasl is None:
            return
        if sasl.closes:
            self._log_close("authentication failed")
            self._closing = True
            self._requests.close()
        elif sasl.principal is not None:
            self._requests.limit(self._limits.max_request_bytes)

    async def _next(self, view: ClusterView) -> list[DecodedRequest]:
        """Removes the oldest request, and those after it that coalesce with it."""
        frame = self._requests.pop()
        requests = [
            self._decode(view, frame)
            if len(frame) <= LARGE_REQUEST
            else await self._decode_large(view, frame)
        ]
        coalesces = requests[0].api.coalescing is not None
        while coalesces and self._requests and len(requests) < MAX_COALESCED:
            try:
                frame = self._requests.first
                following = (
                    self._decode(view, frame)
                    if len(frame) <= LARGE_REQUEST
                    else await self._decode_large(view, frame)
                )
            except BadMessage:  # it closes the connection when its turn comes
                break
            if not self._requests or not following.coalesces_with(requests[0]):
                break
            self._requests.pop()
            requests.append(following)
        return requests

    def _decode(self, view: ClusterView, frame: bytes) -> DecodedRequest:
        queued_for, self._queued_for = self._queued_for, 0.0
        return decode(self._listener, self._client, view, frame, queued_for)

    async def _decode_large(self, view: ClusterView, frame: bytes) -> DecodedRequest:
        queued_for, self._queued_for = self._queued_for, 0.0
        return await decode_in_portions(self._listener, self._client, view, frame, queued_for)

    def _write(self, responses: list[EncodedResponse | None]) -> None:
        for response in responses:
            if response is not None and not self._transport.is_closing():
                self._responses.write(response.content, more=bool(self._requests))

    def _predict(self, request: DecodedRequest, response: EncodedResponse | None) -> None:
        if self._predicted is not None:
            self._predicted.cancel()
            self._predicted = None
        predict = request.api.predict
        # A throttled response has a throttle time, which the next one has not.
        if predict is not None and response is not None and not self._client.throttled:
            self._predicted = predict(request.call, response.message, self._reply, self._dispatch)

    def _disconnect(self, reason: str) -> None:
        self._log_close(reason)
        self._transport.abort()

    def _log_close(self, reason: str) -> None:
        self._listener.log.log(
            "kafka connection closed", client=self._client.host, software=self._client.software, reason=reason
        )
