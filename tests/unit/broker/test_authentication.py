"""Which properties require which authentication."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.authentication import Authentication
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.rpc.tls import TlsFiles

SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-256"
TLS = TlsFiles(Path("c"), Path("k"))
MUTUAL = TlsFiles(Path("c"), Path("k"), Path("a"), requires_client_certificates=True)


@pytest.mark.parametrize(
    ("properties", "tls", "users", "certificates"),
    [
        ([], None, False, False),
        ([], TLS, False, False),
        ([], MUTUAL, False, True),
        ([SCRAM], None, True, False),
        ([SCRAM], MUTUAL, True, True),
    ],
)
async def test_properties_require_authentication(
    properties: list[str], tls: TlsFiles | None, users: bool, certificates: bool
) -> None:
    async with AsyncExitStack() as stack:
        settings = ServeSettings(tls=tls, config=BrokerConfig.parse(properties))
        made = Authentication.start(settings, stack)
        assert (made.authenticator is not None, made.certificates is not None) == (users, certificates)
        assert len(made.access) == (users or certificates)


async def test_invalid_mapping_rules_prevent_the_start() -> None:
    settings = ServeSettings(config=BrokerConfig.parse(["ssl.principal.mapping.rules=default"]))
    with pytest.raises(KafkaError) as caught:
        Authentication.start(settings, AsyncExitStack())
    assert caught.value.code is ErrorCode.INVALID_CONFIG
