"""Which properties require which authentication."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.authentication import Authentication, check_tokens, log_unauthenticated
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.rpc.tls import TlsFiles
from sharebroker_server.security.principal import Principal
from tests.testkit.issuer import AUDIENCE, ISSUER, jwk, jwk_set, token

SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-256"
TLS = TlsFiles(Path("c"), Path("k"))
MUTUAL = TlsFiles(Path("c"), Path("k"), Path("a"), requires_client_certificates=True)


def test_listeners_that_serve_anyone_are_logged() -> None:
    with capture_logs() as lines:
        log_unauthenticated(ServeSettings(grpc="0.0.0.0:1", config=BrokerConfig.parse(())))
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("clients are not authenticated", "warning")
    assert "--grpc 0.0.0.0:1" in line["reason"]


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
        await made.read_keys()  # without access tokens it reads none
        assert len(made.access) == (users or certificates)


async def test_invalid_mapping_rules_prevent_the_start() -> None:
    settings = ServeSettings(config=BrokerConfig.parse(["ssl.principal.mapping.rules=default"]))
    with pytest.raises(KafkaError) as caught:
        Authentication.start(settings, AsyncExitStack())
    assert caught.value.code is ErrorCode.INVALID_CONFIG


BEARER = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "sharebroker",
}
UNVERIFIED = "sasl.oauthbearer.allow.unverified"


@pytest.mark.parametrize(
    ("changes", "tls", "grpc", "reason"),
    [
        ({}, None, "127.0.0.1:1", None),
        ({}, TLS, "0.0.0.0:1", None),
        ({}, None, "0.0.0.0:1", "needs --tls-cert"),
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, TLS, "127.0.0.1:1", "jwks.endpoint.url"),
        (
            {"sasl.oauthbearer.expected.issuer": ""},
            TLS,
            "127.0.0.1:1",
            "needs sasl.oauthbearer.expected.issuer",
        ),
        ({"sasl.oauthbearer.expected.audience": ""}, TLS, "127.0.0.1:1", "expected.audience"),
        (
            {
                "sasl.oauthbearer.expected.issuer": "",
                f"{UNVERIFIED}.issuer": "true",
                "sasl.oauthbearer.expected.audience": "",
                f"{UNVERIFIED}.audience": "true",
            },
            TLS,
            "127.0.0.1:1",
            None,
        ),
    ],
)
def test_access_tokens_need_an_issuer_and_a_secure_transport(
    changes: dict[str, str], tls: TlsFiles | None, grpc: str, reason: str | None
) -> None:
    settings = ServeSettings(grpc=grpc, tls=tls, config=BrokerConfig.of(BEARER | changes))
    if reason is None:
        check_tokens(settings)
        return
    with pytest.raises(KafkaError, match=reason) as caught:
        check_tokens(settings)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


async def test_properties_are_the_rules_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(jwk_set(jwk("RS256", "1")))
    properties = {
        "sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": f"x,{AUDIENCE}",
        "sasl.oauthbearer.sub.claim.name": "client",
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    settings = ServeSettings(config=BrokerConfig.of(BEARER | properties))
    async with AsyncExitStack() as stack:
        made = Authentication.start(settings, stack)
        await made.read_keys()
        authenticator = made.authenticator
        assert authenticator is not None
        found = await authenticator.verify_token(token(client="worker"))
        assert found is not None
        assert found.principal == Principal("worker")
        assert await authenticator.verify_token(token("worker")) is None
        assert await authenticator.verify_token(token(client="worker", lifetime=-1)) is None
