"""Addresses of gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.address import Address, is_loopback, over_tls, read_password
from sharebroker_protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tls://broker", "must be tls://HOST:PORT"),
        ("tls://broker:9090/path", "must be tls://HOST:PORT"),
        ("tls://broker:9090?pin=1", "not pin"),
        ("tls://broker:9090?cert=a", "needs both cert and key"),
        ("tls://broker:9090?ca=/absent", "/absent, which cannot be read: No such file"),
        ("tls://broker:9090?user=a", "set SHAREBROKER_PASSWORD or password_file"),
        ("tls://broker:9090?user=a:b&password_file=x", "a user without a colon"),
        ("tls://broker:9090?password_file=x", "needs a user"),
        ("tls://broker:9090?user=a&password_file=/absent", "/absent as the password's file: No such file"),
        ("tls://broker:9090?user=a&password=hush", "not password"),
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


def test_tls_options_replace_the_name() -> None:
    assert over_tls([("a", 1)], None) == [("a", 1)]
    assert over_tls([("a", 1)], "broker") == [("a", 1), ("grpc.ssl_target_name_override", "broker")]


def test_a_user_has_a_password_from_a_file_or_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("hush\n")
    monkeypatch.delenv("SHAREBROKER_PASSWORD", raising=False)
    for address in (f"tls://broker:9090?user=alice&password_file={file}", "tls://broker:9090?user=alice"):
        parsed = Address.parse(address)
        assert parsed.identified
        assert "hush" not in repr(parsed)
        monkeypatch.setenv("SHAREBROKER_PASSWORD", "hush")
    assert not Address.parse("tls://broker:9090").identified


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be a password"),
        (b"\nhush", "must be a password"),
        (b"\xff", "UTF-8"),
        (b"x" * 2000, "at most"),
    ],
)
def test_an_unusable_password_file_has_a_reason_without_its_content(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        read_password(file)
    assert "hush" not in str(caught.value)


def test_a_password_is_the_first_line(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("größe 1 \r\nmore".encode())
    assert read_password(file) == "größe 1 "


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("a.b", False),
    ],
)
def test_loopback_hosts(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
