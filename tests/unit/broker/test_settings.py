"""Settings of `serve`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.settings import (
    ServeSettings,
    describe,
    parse_address,
    parse_max_memory,
    parse_principals,
    parse_roles,
    parse_tls,
)
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


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (None, None),
        ("0", 0),
        ("134217728", 1 << 27),
        ("512MiB", 1 << 29),
        ("4 gib", 1 << 32),
        ("65536KiB", 1 << 26),
        ("1TiB", 1 << 40),
    ],
)
def test_memory_limits(text: str | None, limit: int | None) -> None:
    assert parse_max_memory(text) == limit


@pytest.mark.parametrize("text", ["", "-1", "1.5GiB", "512MB", "512M", "MiB", "１GiB", "1" * 16])
def test_memory_limits_of_another_form_are_rejected(text: str) -> None:
    with pytest.raises(KafkaError, match="--max-memory takes bytes, for example 512MiB"):
        parse_max_memory(text)


def test_too_small_memory_limits_are_rejected() -> None:
    with pytest.raises(KafkaError, match="--max-memory must be 0 or at least 32MiB; not '31MiB'"):
        parse_max_memory("31MiB")


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


def test_principals_are_subjects_separated_by_semicolons() -> None:
    def parsed(text: str) -> frozenset[str]:
        return parse_principals(BrokerConfig.parse([f"broker.principals={text}", "ssl.client.auth=required"]))

    assert parsed("") == parsed(" ; ") == frozenset()
    assert parsed("User:CN=a,O=b; CN=c") == {"CN=a,O=b", "CN=c"}
    assert parsed("CN=a\\;b;CN=c") == {"CN=a\\;b", "CN=c"}


def test_principals_need_client_certificates() -> None:
    with pytest.raises(KafkaError, match=r"needs ssl\.client\.auth=required"):
        parse_principals(BrokerConfig.parse(["broker.principals=CN=a"]))
    assert parse_principals(BrokerConfig.parse(())) == frozenset()
