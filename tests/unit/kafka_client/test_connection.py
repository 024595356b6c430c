"""A connection against a broker that a test scripts: setup, the line of requests, and every way to end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.connection import SETUP_BYTES, BrokerConnection, ConnectionSettings
from sharebroker_server.kafka_client.core.apis import (
    API_VERSIONS,
    LIST_OFFSETS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from sharebroker_server.kafka_client.core.sasl import Credentials
from sharebroker_server.kafka_wire.frames import codec_of, response_frame
from sharebroker_server.kafka_wire.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.authentication.sasl import Challenge, PasswordCheck, SaslExchange, Success
from sharebroker_server.security.authentication.scram import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from tests.testkit.certificates import Authority
from tests.testkit.tables import each
from tests.testkit.waiting import eventually
from tests.unit.kafka_client.harness import (
    OFFERED,
    SETTINGS,
    Broker,
    ask,
    connected,
    failure,
    has_unanswered,
    metadata,
    serving,
)

SALT = b"0123456789abcdef"


# Setup


@each(
    "own, before_2_4, asked",
    [((0, 3), False, [3]), ((0, 5), False, [3]), ((0, 2), False, [3, 2]), ((0, 1), True, [3, 0])],
)
async def test_versions_are_negotiated(own: tuple[int, int], before_2_4: bool, asked: list[int]) -> None:
    broker = Broker({**OFFERED, API_VERSIONS.key: own}, before_2_4=before_2_4)
    broker.answers.put_nowait(metadata("c"))
    async with connected(broker) as connection:
        assert [version for _, version, _ in broker.received] == asked
        assert await ask(connection) == "c"
        assert broker.received[-1][:2] == (METADATA.key, 9)
        assert broker.client_ids == {"sharebroker"}


async def test_an_api_without_common_version_is_refused_before_it_is_sent() -> None:
    broker = Broker({**OFFERED, METADATA.key: (0, 3)})
    async with connected(broker) as connection:
        assert (await failure(ask(connection))).code is ErrorCode.UNSUPPORTED_VERSION
        assert len(broker.received) == 1
        assert not connection.closed


async def test_a_silent_broker_is_given_up_at_the_deadline_of_the_setup() -> None:
    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    async with serving(Broker(respond=silent)) as broker:
        settings = replace(SETTINGS, setup_timeout=0.05)
        error = await failure(BrokerConnection.open("127.0.0.1", broker.port, settings))
        assert error.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_port_without_listener_is_a_network_error() -> None:
    async with serving(Broker()) as broker:
        pass
    error = await failure(BrokerConnection.open("127.0.0.1", broker.port, SETTINGS))
    assert error.code is ErrorCode.NETWORK_EXCEPTION
    assert f"127.0.0.1:{broker.port}" in error.message


async def test_a_response_before_the_end_of_the_setup_is_small() -> None:
    async def large(*_: object) -> bytes:
        return (SETUP_BYTES + 1).to_bytes(4) + bytes(8)

    async with serving(Broker(respond=large)) as broker:
        error = await failure(BrokerConnection.open("127.0.0.1", broker.port, SETTINGS))
    assert error.code is ErrorCode.NETWORK_EXCEPTION
    assert f"A response of {SETUP_BYTES + 1} bytes" in error.message


async def test_tls_verifies_the_certificate_of_the_broker(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    identity = authority.issue("broker", "127.0.0.1")
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(identity.certificate, identity.key)
    broker = Broker()
    broker.answers.put_nowait(metadata("secret"))
    async with serving(broker, own):
        for tls, host, trusted in [
            (ssl.create_default_context(cafile=authority.file), "127.0.0.1", True),
            (ssl.create_default_context(cafile=authority.file), "localhost", False),
            (ssl.create_default_context(), "127.0.0.1", False),
        ]:
            opening = BrokerConnection.open(host, broker.port, replace(SETTINGS, tls=tls))
            if trusted:
                connection = await opening
                assert await ask(connection) == "secret"
                connection.close()
            else:
                assert "CERTIFICATE_VERIFY_FAILED" in (await failure(opening)).message


# Authentication


def credential(mechanism: ScramMechanism, _: str) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, "secret", SALT, 4096), SALT, 4096)


@dataclass
class Authentication:
    """The SASL side of a broker."""

    lifetime_ms: int = 0
    exchange: SaslExchange = field(
        default_factory=lambda: SaslExchange(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], credential)
    )

    async def respond(self, key: int, _: int, message: Any) -> Message | None:
        try:
            if key == SASL_HANDSHAKE.key:
                self.exchange.start(message.mechanism)
                return SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
            if key == SASL_AUTHENTICATE.key:
                return self._step(message.auth_bytes)
        except KafkaError as error:
            if key == SASL_HANDSHAKE.key:
                return SaslHandshakeResponse(error_code=error.code, mechanisms=["PLAIN"])
            return SaslAuthenticateResponse(
                error_code=error.code, error_message=error.message, auth_bytes=b""
            )
        return None

    def _step(self, token: bytes) -> Message:
        result = self.exchange.step(token)
        if isinstance(result, PasswordCheck):
            result = self.exchange.checked(result.password == "secret")
        assert isinstance(result, Challenge | Success)
        lifetime = self.lifetime_ms if isinstance(result, Success) else 0
        return SaslAuthenticateResponse(error_code=0, auth_bytes=result.token, session_lifetime_ms=lifetime)


def with_password(mechanism: str, password: str = "secret") -> ConnectionSettings:
    async def login() -> Credentials:
        return Credentials(mechanism, "user", password)

    return replace(SETTINGS, login=login)


@each("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_client_with_credentials_is_authenticated(mechanism: str) -> None:
    broker = Broker(respond=Authentication(lifetime_ms=3_600_000).respond)
    broker.answers.put_nowait(metadata("c"))
    async with connected(broker, with_password(mechanism)) as connection:
        assert await ask(connection) == "c"
        now = asyncio.get_running_loop().time()
        assert connection.renew_at is not None
        assert now < connection.renew_at < now + 3_600 * 0.9


@each("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_rejected(mechanism: str) -> None:
    async with serving(Broker(respond=Authentication().respond)) as broker:
        opening = BrokerConnection.open("127.0.0.1", broker.port, with_password(mechanism, "other"))
        error = await failure(opening)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "other" not in str(error)


async def test_a_mechanism_that_the_broker_lacks_is_named() -> None:
    authentication = Authentication(exchange=SaslExchange(["PLAIN"], credential))
    async with serving(Broker(respond=authentication.respond)) as broker:
        error = await failure(BrokerConnection.open("127.0.0.1", broker.port, with_password("SCRAM-SHA-512")))
    assert error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "PLAIN" in error.message
    assert "SCRAM-SHA-512" in error.message


# Requests


async def test_responses_belong_to_requests_in_order() -> None:
    broker = Broker()
    async with connected(broker) as connection:
        first, second = asyncio.create_task(ask(connection)), asyncio.create_task(ask(connection))
        for name in ("one", "two"):
            broker.answers.put_nowait(metadata(name))
        assert [*await asyncio.gather(first, second)] == ["one", "two"]


async def test_at_most_the_permitted_number_of_requests_is_in_flight() -> None:
    broker = Broker()
    async with connected(broker, replace(SETTINGS, max_in_flight=2)) as connection:
        waiting = [asyncio.create_task(ask(connection)) for _ in range(5)]
        for number in range(5):
            expected = min(2, 5 - number)
            await eventually(partial(has_unanswered, connection, expected))
            assert connection.unanswered == expected
            broker.answers.put_nowait(metadata(str(number)))
            assert await waiting[number] == str(number)


async def test_a_cancelled_request_keeps_its_place_until_its_response() -> None:
    broker = Broker()
    async with connected(broker, replace(SETTINGS, max_in_flight=1)) as connection:
        cancelled = asyncio.create_task(ask(connection))
        await eventually(lambda: connection.unanswered)
        cancelled.cancel()
        following = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        assert connection.unanswered == 1
        broker.answers.put_nowait(metadata("of the cancelled one"))
        broker.answers.put_nowait(metadata("of the following one"))
        assert await following == "of the following one"


@each("throttle_ms, version, throttled", [(60_000, 9, True), (60_000, 5, False), (20, 9, False)])
async def test_a_throttled_client_waits(throttle_ms: int, version: int, throttled: bool) -> None:
    """A broker of an older version delays the response itself."""
    broker = Broker({**OFFERED, METADATA.key: (0, version)})
    api = replace(METADATA, first=0)
    for name in ("one", "two"):
        broker.answers.put_nowait(metadata(name, throttle_ms))
    async with connected(broker) as connection:
        assert await ask(connection, api=api) == "one"
        if throttled:
            error = await failure(ask(connection, timeout=10.0))
            assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert error.retry_after is not None
            assert 10 < error.retry_after <= 60
            assert not connection.closed
        else:
            assert await ask(connection, api=api) == "two"


# The end


async def test_a_retired_connection_ends_after_its_last_response() -> None:
    broker = Broker()
    async with connected(broker) as connection:
        last = asyncio.create_task(ask(connection))
        await eventually(lambda: connection.unanswered)
        connection.retire()
        assert not connection.closed
        broker.answers.put_nowait(metadata("last"))
        assert await last == "last"
        assert connection.closed
    async with connected(broker) as idle:
        idle.retire()
        assert idle.closed


async def ended(connection: BrokerConnection, waiting: Awaitable[object], code: ErrorCode) -> str:
    error = await failure(waiting)
    assert error.code is code
    assert connection.closed
    later = await failure(ask(connection))
    assert later.code is ErrorCode.NETWORK_EXCEPTION
    return error.message


async def test_a_late_response_ends_the_connection_for_all() -> None:
    async with connected(Broker()) as connection:
        other = asyncio.create_task(ask(connection))
        late = ask(connection, timeout=0.05)
        assert "Metadata" in await ended(connection, late, ErrorCode.REQUEST_TIMED_OUT)
        assert (await failure(other)).code is ErrorCode.NETWORK_EXCEPTION


async def test_a_late_response_ends_the_connection_after_its_caller_left() -> None:
    async with connected(Broker()) as connection:
        left = asyncio.create_task(ask(connection, timeout=0.05))
        await eventually(lambda: connection.unanswered)
        left.cancel()
        await eventually(lambda: connection.closed)


@each(
    "answer, reason",
    [
        (None, "closed the connection"),
        (b"\0\0\0\x08\0\0\0\x63" + bytes(4), "No request waits for the response 99"),
        (b"\0\0\0\x08\xff\xff\xff\xff" + bytes(4), "No request waits for the response -1"),
        (b"\0\0\0\x05\0\0\0\1\0", "ends too early"),
        (b"\0\0\0\3abc", "A response of 3 bytes"),
        (b"\xff\xff\xff\xff", "A response of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n", "A response of 1213486160 bytes"),
    ],
)
async def test_an_invalid_response_ends_the_connection(answer: bytes | None, reason: str) -> None:
    broker = Broker()
    broker.answers.put_nowait(answer)
    async with connected(broker) as connection:
        assert reason in await ended(connection, ask(connection), ErrorCode.NETWORK_EXCEPTION)


async def test_closing_fails_requests_that_wait_for_a_response_or_for_room() -> None:
    broker = Broker()
    async with connected(broker, replace(SETTINGS, max_in_flight=1)) as connection:
        waiting = [asyncio.create_task(ask(connection)) for _ in range(3)]
        await eventually(lambda: connection.unanswered)
        connection.close()
        for task in waiting:
            assert (await failure(task)).code is ErrorCode.NETWORK_EXCEPTION


async def test_a_response_of_the_largest_size_is_read() -> None:
    part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=1, offset=5)
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t" * 100, partitions=[part] * 10_000)
    answer = ListOffsetsResponse(topics=[topic])
    size = len(response_frame(0, codec_of(LIST_OFFSETS.key, 7), answer)) - 4
    for limit, fits in [(size, True), (size - 1, False)]:
        broker = Broker()
        broker.answers.put_nowait(answer)
        async with connected(broker, replace(SETTINGS, max_response_bytes=limit)) as connection:
            asked = connection.request(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=[]))
            if fits:
                assert await asked == answer
            else:
                await ended(connection, asked, ErrorCode.NETWORK_EXCEPTION)
