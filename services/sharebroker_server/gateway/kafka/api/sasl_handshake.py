"""SaslHandshake (17): begins an authentication. Version 0, which precedes SaslAuthenticate, is not served."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.authentication import SASL_HANDSHAKE
from sharebroker_server.gateway.kafka.call import Api, Call
from sharebroker_server.kafka_wire.messages import SaslHandshakeRequest, SaslHandshakeResponse
from sharebroker_server.security.authentication.sasl import illegal_state


async def handle(call: Call[SaslHandshakeRequest]) -> SaslHandshakeResponse:
    """Returns the enabled mechanisms. Raises UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE."""
    if call.client.sasl is None:
        raise illegal_state("This listener does not authenticate clients.")
    call.client.sasl.handshake(call.request.mechanism)
    return SaslHandshakeResponse(mechanisms=_mechanisms(call))


def _refuse(call: Call[Any], error: KafkaError) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error.code, mechanisms=_mechanisms(call))


def _mechanisms(call: Call[Any]) -> list[str]:
    sasl = call.listener.sasl
    return [] if sasl is None else list(sasl.authenticator.mechanisms)


API = Api(SASL_HANDSHAKE, (1, 1), handle, _refuse)
