"""SaslAuthenticate (36): one round of an authentication."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.authentication import SASL_AUTHENTICATE
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from sharebroker_server.security import audit
from sharebroker_server.security.authentication.sasl import illegal_state


async def handle(call: Call[SaslAuthenticateRequest]) -> SaslAuthenticateResponse:
    """Returns the server's token. Raises SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE."""
    if call.client.sasl is None:
        raise illegal_state("This listener does not authenticate clients.")
    sasl = call.client.sasl
    try:
        token, lifetime_ms = await sasl.authenticate(call.request.auth_bytes)
    except KafkaError:
        audit.unauthenticated("kafka", call.client.host, sasl.mechanism, sasl.claimed)
        raise
    return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)


API = Api(SASL_AUTHENTICATE, (0, 2), handle, Refusal(SaslAuthenticateResponse))
