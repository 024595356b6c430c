"""A connection serves authenticated clients only, closes after a failure, and ends sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.kafka.api import sasl_authenticate, sasl_handshake
from sharebroker_server.gateway.kafka.authentication import (
    AUTHENTICATION_TIMEOUT,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslSession,
    SaslSettings,
)
from sharebroker_server.gateway.kafka.call import ClientConnection
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import API_VERSIONS, codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.authentication.access_tokens import AccessToken
from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.oauthbearer import DUMMY, ERROR
from sharebroker_server.security.authentication.sasl import MECHANISMS
from sharebroker_server.security.authentication.scram import OAUTHBEARER
from sharebroker_server.security.principal import ANONYMOUS, Principal
from tests.testkit.sasl import MemoryUsers, ScramClient, plain
from tests.unit.gateway.kafka.harness import EXECUTE, Harness, serving

SHA_256 = "SCRAM-SHA-256"
ALICE = Principal("alice")
METADATA, PRODUCE = 3, 0
LARGEST = 1_000
R = TypeVar("R", bound=Message)


def settings(max_reauth_ms: int = 0, *, tls: bool = True, required: bool = True) -> SaslSettings:
    authenticator = Authenticator(MECHANISMS, tls=tls, required=required)
    authenticator.users = MemoryUsers({"alice": "pencil", "bob": "pen"})
    return SaslSettings(authenticator, max_reauth_ms, failure_delay=0.0, max_receive_size=LARGEST)


class Session:
    """A session whose clock the test sets."""

    def __init__(self, max_reauth_ms: int = 0, *, required: bool = True) -> None:
        self.time = 0.0
        self.sasl = SaslSession(settings(max_reauth_ms, required=required), lambda: self.time)

    async def log_in(self, name: str = "alice", password: str = "pencil", mechanism: str = SHA_256) -> int:
        """Authenticates; returns the length of the session in milliseconds."""
        self.sasl.handshake(mechanism)
        if mechanism == "PLAIN":
            return (await self.sasl.authenticate(plain(name, password)))[1]
        client = ScramClient(mechanism, name, password)
        first, length = await self.sasl.authenticate(client.first())
        assert length == 0
        final, length = await self.sasl.authenticate(client.final(first))
        client.verify(final)
        return length


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_user_is_authenticated(mechanism: str) -> None:
    session = Session()
    assert await session.log_in(mechanism=mechanism) == 0
    assert (session.sasl.principal, session.sasl.closes, session.sasl.over) == (ALICE, False, False)
    assert session.sasl.admit(PRODUCE, 0.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("alice", "pen"), ("eve", "pencil")])
async def test_a_failure_closes_the_connection(mechanism: str, name: str, password: str) -> None:
    session = Session()
    with pytest.raises(KafkaError) as caught:
        await session.log_in(name, password, mechanism)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (session.sasl.principal, session.sasl.closes) == (None, True)


@pytest.mark.parametrize("key", [PRODUCE, METADATA, SASL_AUTHENTICATE])
def test_other_requests_before_authentication_close_the_connection(key: int) -> None:
    session = Session()
    assert session.sasl.admit(API_VERSIONS, 0.0)
    assert session.sasl.admit(SASL_HANDSHAKE, 0.0)
    with pytest.raises(BadMessage):
        session.sasl.admit(key, 0.0)


@pytest.mark.parametrize("key", [PRODUCE, METADATA])
def test_requested_authentication_serves_clients_without_it(key: int) -> None:
    session = Session(required=False)
    assert session.sasl.admit(key, 0.0)
    session.time = AUTHENTICATION_TIMEOUT + 1
    assert not session.sasl.overdue
    assert session.sasl.principal is None


async def test_requested_authentication_accepts_users_and_rejects_wrong_passwords() -> None:
    session = Session(required=False)
    assert session.sasl.admit(METADATA, 0.0)
    await session.log_in()
    assert session.sasl.principal == ALICE
    with pytest.raises(KafkaError):
        await Session(required=False).log_in("alice", "pen")


def test_requested_authentication_limits_the_time_of_an_exchange() -> None:
    session = Session(required=False)
    session.sasl.handshake(SHA_256)
    assert not session.sasl.admit(METADATA, 0.0)
    session.time = AUTHENTICATION_TIMEOUT + 1
    assert session.sasl.overdue


@pytest.mark.parametrize("key", [PRODUCE, API_VERSIONS, SASL_HANDSHAKE])
def test_other_requests_during_an_exchange_are_illegal(key: int) -> None:
    session = Session()
    session.sasl.handshake(SHA_256)
    assert session.sasl.admit(SASL_AUTHENTICATE, 0.0)
    assert not session.sasl.closes
    assert not session.sasl.admit(key, 0.0)
    assert session.sasl.closes


def test_an_unknown_mechanism_closes_the_connection() -> None:
    session = Session()
    with pytest.raises(KafkaError) as caught:
        session.sasl.handshake("GSSAPI")
    assert (caught.value.code, session.sasl.closes) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, True)


async def test_a_client_has_limited_time_to_authenticate() -> None:
    session = Session()
    session.time = AUTHENTICATION_TIMEOUT
    assert not session.sasl.overdue
    session.time += 0.1
    assert session.sasl.overdue
    await session.log_in()
    session.time += 10 * AUTHENTICATION_TIMEOUT
    assert not session.sasl.overdue


async def test_without_a_limit_a_session_is_authenticated_once() -> None:
    session = Session()
    await session.log_in()
    session.time += 1e9
    with pytest.raises(KafkaError) as caught:
        session.sasl.handshake(SHA_256)
    assert (caught.value.code, session.sasl.closes) == (ErrorCode.ILLEGAL_SASL_STATE, False)
    with pytest.raises(KafkaError) as caught:
        await session.sasl.authenticate(b"")
    assert (caught.value.code, session.sasl.closes) == (ErrorCode.ILLEGAL_SASL_STATE, False)


async def test_after_its_end_a_session_admits_a_handshake_only() -> None:
    session = Session(max_reauth_ms=60_000)
    assert await session.log_in() == 60_000
    session.time = 60.0
    assert session.sasl.admit(PRODUCE, 0.0)
    session.time = 61.0
    assert session.sasl.over
    assert session.sasl.admit(PRODUCE, 2.0)  # it arrived before the end
    assert session.sasl.admit(SASL_HANDSHAKE, 0.0)
    with pytest.raises(BadMessage, match="session is over"):
        session.sasl.admit(PRODUCE, 0.0)


async def test_reauthentication_begins_a_new_session() -> None:
    session = Session(max_reauth_ms=60_000)
    await session.log_in()
    session.time = 59.0
    assert await session.log_in() == 60_000
    session.time = 118.0
    assert (session.sasl.over, session.sasl.principal) == (False, ALICE)


async def test_reauthentication_must_keep_the_user() -> None:
    session = Session(max_reauth_ms=60_000)
    await session.log_in()
    session.time = 59.0
    with pytest.raises(KafkaError) as caught:
        await session.log_in("bob", "pen")
    assert (caught.value.code, session.sasl.closes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
    assert session.sasl.principal == ALICE


async def test_reauthentication_must_keep_the_mechanism() -> None:
    session = Session(max_reauth_ms=60_000)
    await session.log_in()
    session.time = 59.0
    with pytest.raises(KafkaError) as caught:
        await session.log_in(mechanism="PLAIN")
    assert (caught.value.code, session.sasl.closes) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, True)


async def test_reauthentication_is_limited_to_one_a_second() -> None:
    session = Session(max_reauth_ms=60_000)
    await session.log_in()
    session.time = 0.9
    with pytest.raises(KafkaError) as caught:
        session.sasl.handshake(SHA_256)
    assert caught.value.code is ErrorCode.ILLEGAL_SASL_STATE


async def test_reauthentication_is_limited_in_time() -> None:
    session = Session(max_reauth_ms=60_000)
    await session.log_in()
    session.time = 59.0
    session.sasl.handshake(SHA_256)
    session.time += AUTHENTICATION_TIMEOUT + 0.1
    assert session.sasl.overdue


def test_settings_follow_the_broker_config() -> None:
    authenticator = Authenticator(MECHANISMS, tls=True)
    properties = {
        "connections.max.reauth.ms": "7",
        "connection.failed.authentication.delay.ms": "200",
        "sasl.server.max.receive.size": "9",
    }
    assert SaslSettings.of(authenticator, BrokerConfig.of(properties)) == SaslSettings(
        authenticator, 7, 0.2, 9
    )


def test_a_client_of_a_listener_without_sasl_is_anonymous() -> None:
    assert ClientConnection("kafka-1", "/1").principal == ANONYMOUS
    assert ClientConnection("kafka-1", "/1", sasl=Session().sasl).principal == ANONYMOUS


async def test_the_user_of_sasl_replaces_the_owner_of_the_certificate() -> None:
    owner = Principal("CN=worker")
    assert ClientConnection("kafka-1", "/1", owner=owner).principal == owner
    session = Session()
    client = ClientConnection("kafka-1", "/1", sasl=session.sasl, owner=owner)
    assert client.principal == owner, "as of a gRPC call without a header"
    await session.log_in()
    assert client.principal == session.sasl.principal != owner


class Tokens:
    """Accepts the token `valid` of alice, which expires at 100 s."""

    async def verify(self, token: str) -> AccessToken | None:
        """Returns the token of alice."""
        return AccessToken(ALICE, 100.0) if token == "valid" else None


class BearerSession(Session):
    """A session with access tokens; its clock is the time since the epoch as well."""

    def __init__(self, max_reauth_ms: int = 0) -> None:
        super().__init__(max_reauth_ms)
        tokens: Any = Tokens()
        made = settings(max_reauth_ms)
        authenticator = Authenticator([OAUTHBEARER, SHA_256], tls=True, tokens=tokens)
        made = replace(made, authenticator=authenticator)
        self.sasl = SaslSession(made, lambda: self.time, lambda: self.time)

    async def bear(self, token: str) -> tuple[bytes, int]:
        """Sends a token."""
        self.sasl.handshake(OAUTHBEARER)
        return await self.sasl.authenticate(f"n,,\1auth=Bearer {token}\1\1".encode())


@pytest.mark.parametrize(("max_reauth_ms", "length"), [(0, 100_000), (60_000, 60_000), (900_000, 100_000)])
async def test_a_session_ends_with_its_access_token_at_the_latest(max_reauth_ms: int, length: int) -> None:
    session = BearerSession(max_reauth_ms)
    assert await session.bear("valid") == (b"", length)
    assert session.sasl.principal == ALICE
    session.time = length / 1000
    assert not session.sasl.over
    session.time += 1.0
    assert session.sasl.over


async def test_an_access_token_may_be_renewed_in_the_same_session() -> None:
    session = BearerSession()
    await session.bear("valid")
    session.time = 40.0
    assert await session.bear("valid") == (b"", 60_000)


async def test_a_token_that_the_skew_of_clocks_permits_has_no_session() -> None:
    session = BearerSession()
    session.time = 110.0
    assert await session.bear("valid") == (b"", 0)
    session.time += 0.1
    assert session.sasl.over


async def test_a_rejected_access_token_closes_the_connection_after_the_error() -> None:
    session = BearerSession()
    assert await session.bear("forged") == (ERROR, 0)
    assert not session.sasl.closes
    with pytest.raises(KafkaError) as caught:
        await session.sasl.authenticate(DUMMY)
    assert (caught.value.code, session.sasl.closes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)


class Raw:
    """A connection to a listener with SASL."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, key: int, version: int, request: Message) -> None:
        self._writer.write(bytes(request_frame(5, "raw", codec_of(key, version), request)))

    async def receive(self, key: int, version: int, response: type[R]) -> R:
        length = int.from_bytes(await self._reader.readexactly(4))
        _, message = read_response(await self._reader.readexactly(length), codec_of(key, version))
        assert isinstance(message, response)
        return message

    async def closed(self) -> bool:
        """Returns whether the listener closes the connection, without a further response."""
        async with asyncio.timeout(10):
            return await self._reader.read() == b""

    async def handshake(self, mechanism: str = "PLAIN") -> SaslHandshakeResponse:
        self.send(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))
        return await self.receive(SASL_HANDSHAKE, 1, SaslHandshakeResponse)

    async def authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        self.send(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
        return await self.receive(SASL_AUTHENTICATE, 2, SaslAuthenticateResponse)

    async def execute(self, command: str) -> str | None:
        self.send(EXECUTE, 1, request_of(command))
        response = await self.receive(EXECUTE, 1, MetadataResponse)
        return response.topics[0].name


def request_of(command: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=command)])


@pytest.fixture
async def secured() -> AsyncIterator[Harness]:
    harness = Harness()
    harness.apis[SASL_HANDSHAKE] = sasl_handshake.API
    harness.apis[SASL_AUTHENTICATE] = sasl_authenticate.API
    harness.listener.sasl = settings(60_000)
    async with serving(harness):
        yield harness
    harness.listener.sasl.authenticator.passwords.close()


@asynccontextmanager
async def raw(harness: Harness) -> AsyncIterator[Raw]:
    host, _, port = harness.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


async def test_requests_are_served_after_authentication(secured: Harness) -> None:
    async with raw(secured) as client:
        client.send(API_VERSIONS, 0, ApiVersionsRequest())
        assert (await client.receive(API_VERSIONS, 0, ApiVersionsResponse)).error_code == ErrorCode.NONE
        assert (await client.handshake()).mechanisms == list(MECHANISMS)
        response = await client.authenticate(plain("alice", "pencil"))
        assert (response.error_code, response.session_lifetime_ms) == (ErrorCode.NONE, 60_000)
        assert await client.execute("x" * 2 * LARGEST) == "x" * 2 * LARGEST


async def test_a_request_without_authentication_closes_the_connection(secured: Harness) -> None:
    async with raw(secured) as client:
        client.send(EXECUTE, 1, request_of("stolen"))
        assert await client.closed()
    assert secured.begun == []


async def test_a_request_during_an_exchange_is_refused(secured: Harness) -> None:
    async with raw(secured) as client:
        await client.handshake()
        client.send(EXECUTE, 1, request_of("stolen"))
        client.send(EXECUTE, 1, request_of("stolen too"))
        await client.receive(EXECUTE, 1, MetadataResponse)
        assert await client.closed()
    assert secured.begun == []


async def test_wrong_credentials_get_an_error_and_a_closed_connection(secured: Harness) -> None:
    async with raw(secured) as client:
        await client.handshake()
        response = await client.authenticate(plain("alice", "pen"))
        assert (response.error_code, response.auth_bytes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
        assert await client.closed()


async def test_requests_after_a_failed_authentication_are_not_served(secured: Harness) -> None:
    async with raw(secured) as client:
        await client.handshake()
        client.send(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=plain("alice", "pen")))
        client.send(EXECUTE, 1, request_of("stolen"))
        await client.receive(SASL_AUTHENTICATE, 2, SaslAuthenticateResponse)
        assert await client.closed()
    assert secured.begun == []


async def test_an_unknown_mechanism_lists_the_enabled_ones(secured: Harness) -> None:
    async with raw(secured) as client:
        response = await client.handshake("GSSAPI")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == list(MECHANISMS)
        assert await client.closed()


async def test_a_large_request_before_authentication_closes_the_connection(secured: Harness) -> None:
    async with raw(secured) as client:
        await client.handshake()
        client.send(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"x" * LARGEST))
        assert await client.closed()


async def test_a_client_that_never_authenticates_is_disconnected(
    secured: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharebroker_server.gateway.kafka.authentication.AUTHENTICATION_TIMEOUT", 0.0)
    async with raw(secured) as client:
        await client.handshake()
        secured.server.check(asyncio.get_running_loop().time())
        assert await client.closed()


async def test_a_session_that_is_over_closes_the_connection(secured: Harness) -> None:
    assert secured.listener.sasl is not None
    secured.listener.sasl = replace(secured.listener.sasl, max_reauth_ms=1)
    async with raw(secured) as client:
        await client.handshake()
        assert (await client.authenticate(plain("alice", "pencil"))).session_lifetime_ms == 1
        await asyncio.sleep(0.01)
        client.send(EXECUTE, 1, request_of("late"))
        assert await client.closed()
    assert secured.begun == []


async def test_a_listener_without_sasl_rejects_sasl_requests(harness: Harness) -> None:
    harness.apis[SASL_HANDSHAKE] = sasl_handshake.API
    harness.apis[SASL_AUTHENTICATE] = sasl_authenticate.API
    async with raw(harness) as client:
        response = await client.handshake()
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        assert (await client.authenticate(b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.execute("mine") == "mine"
