"""Addresses of gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.address import Address, over_tls
from sharebroker_protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tls://broker", "must be tls://HOST:PORT"),
        ("tls://broker:9090/path", "must be tls://HOST:PORT"),
        ("tls://broker:9090?pin=1", "not pin"),
        ("tls://broker:9090?cert=a", "needs both cert and key"),
        ("tls://broker:9090?ca=/absent", "/absent, which cannot be read: No such file"),
    ],
)
def test_invalid_addresses_are_rejected(address: str, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        Address.parse(address)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("address", ["broker:9090", "[::1]:9090", "dns:///broker:9090", "unix:/tmp/socket"])
def test_address_without_tls_is_a_grpc_target(address: str) -> None:
    assert Address.parse(address) == Address(address)
    assert Address.parse(address).options([("a", 1)]) == [("a", 1)]


@pytest.mark.parametrize("address", ["", "broker", "broker:", "broker:999999", "a b:9090"])
def test_address_needs_host_and_port(address: str) -> None:
    with pytest.raises(KafkaError, match="must be HOST:PORT or tls://HOST:PORT") as caught:
        Address.parse(address)
    assert [violation.field for violation in caught.value.violations] == ["address"]


def test_tls_address_has_credentials_and_the_expected_name(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("certificate")
    address = Address.parse(f"tls://127.0.0.1:9090?ca={authority}&name=broker")
    assert (address.target, address.name) == ("127.0.0.1:9090", "broker")
    assert address.credentials is not None
    assert address.options([]) == over_tls([], "broker")


def test_tls_options_allow_a_slow_handshake_and_replace_the_name() -> None:
    slow = ("grpc.min_reconnect_backoff_ms", 3_000)
    assert over_tls([("grpc.min_reconnect_backoff_ms", 100), ("a", 1)], None) == [slow, ("a", 1)]
    assert over_tls([], "broker") == [slow, ("grpc.ssl_target_name_override", "broker")]
