"""Settings of `serve`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.settings import ServeSettings, describe, parse_address, parse_roles, parse_tls
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.routing.router import ROLES


def test_roles_are_parsed_and_unknown_ones_rejected() -> None:
    assert parse_roles("all") == frozenset(ROLES)
    assert parse_roles("gateway, share-coordinator") == {"gateway", "share-coordinator"}
    for text in ("", "gateway,nothing"):
        with pytest.raises(KafkaError, match="--roles takes"):
            parse_roles(text)


@pytest.mark.parametrize("text", ["here", ":1", "here:port", "here:65536", "a..b:1", "here:0"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(KafkaError, match="--grpc takes HOST:PORT"):
        parse_address(text, "--grpc", lowest=1)


def test_tls_needs_a_certificate_and_a_key() -> None:
    config = BrokerConfig.parse(())
    assert parse_tls(None, None, None, None, config) is None
    with pytest.raises(KafkaError, match="both --tls-cert and --tls-key"):
        parse_tls(Path("a"), None, None, None, config)
    with pytest.raises(KafkaError, match="needs --tls-ca"):
        parse_tls(Path("a"), Path("b"), None, None, BrokerConfig.parse(["ssl.client.auth=required"]))


def test_described_settings_contain_no_password() -> None:
    settings = ServeSettings(redis="redis://:hush@here", config=BrokerConfig.parse(()))
    described = describe(settings)
    assert json.loads(described)["redis"] == ["here:6379"]
    assert "hush" not in described
