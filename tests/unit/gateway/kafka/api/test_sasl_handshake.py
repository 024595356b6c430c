"""SaslHandshake: the enabled mechanisms; Kafka's errors."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.authentication import SaslSession, SaslSettings
from sharebroker_server.kafka_wire.messages import SaslHandshakeRequest, SaslHandshakeResponse
from sharebroker_server.security.authentication.authenticator import Authenticator
from tests.unit.gateway.kafka.api.harness import Harness


async def shaken(harness: Harness, mechanism: str) -> tuple[int, list[str]]:
    response = await harness.call(1, SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    return response.error_code, list(response.mechanisms)


@pytest.mark.parametrize(
    ("mechanism", "code"),
    [("SCRAM-SHA-256", ErrorCode.NONE), ("PLAIN", ErrorCode.UNSUPPORTED_SASL_MECHANISM)],
)
async def test_the_response_lists_the_enabled_mechanisms(
    harness: Harness, mechanism: str, code: ErrorCode
) -> None:
    harness.listener.sasl = SaslSettings(Authenticator(["SCRAM-SHA-256", "PLAIN"], tls=False))
    harness.client.sasl = SaslSession(harness.listener.sasl)
    assert await shaken(harness, mechanism) == (code, ["SCRAM-SHA-256"])


async def test_a_listener_without_sasl_rejects_it(harness: Harness) -> None:
    assert await shaken(harness, "PLAIN") == (ErrorCode.ILLEGAL_SASL_STATE, [])
