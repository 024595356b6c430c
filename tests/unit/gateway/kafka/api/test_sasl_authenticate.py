"""SaslAuthenticate: the server's token, and the length of the session; Kafka's errors."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.authentication import SaslSession, SaslSettings
from sharebroker_server.kafka_wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.sasl import failed
from tests.testkit.sasl import MemoryUsers, ScramClient
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.fixture
def sasl(harness: Harness) -> SaslSession:
    authenticator = Authenticator(["SCRAM-SHA-256"], tls=False)
    authenticator.users = MemoryUsers({"alice": "pencil"})
    harness.listener.sasl = SaslSettings(authenticator, max_reauth_ms=5_000, failure_delay=0.0)
    harness.client.sasl = made = SaslSession(harness.listener.sasl)
    made.handshake("SCRAM-SHA-256")
    return made


async def answer(harness: Harness, token: bytes) -> SaslAuthenticateResponse:
    return await harness.call(2, SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)


@pytest.mark.usefixtures("sasl")
async def test_the_last_response_has_the_length_of_the_session(harness: Harness) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil")
    first = await answer(harness, client.first())
    last = await answer(harness, client.final(first.auth_bytes))
    client.verify(last.auth_bytes)
    assert (first.session_lifetime_ms, last.session_lifetime_ms) == (0, 5_000)


@pytest.mark.usefixtures("sasl")
async def test_a_failure_has_one_text(harness: Harness) -> None:
    response = await answer(harness, b"n,,n=alice")
    expected = (ErrorCode.SASL_AUTHENTICATION_FAILED, failed().message, b"")
    assert (response.error_code, response.error_message, response.auth_bytes) == expected


async def test_a_listener_without_sasl_rejects_it(harness: Harness) -> None:
    assert (await answer(harness, b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
