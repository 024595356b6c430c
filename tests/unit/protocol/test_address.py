"""Addresses of gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.address import Address, is_loopback, over_tls
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.tables import each


@each(
    "address, reason",
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
        ("tls://broker:9090?token_file=/absent", "unusable file as the token's: /absent: No such file"),
        ("tls://broker:9090?token_file=x&user=a", "a user or a token, not both"),
        ("tls://broker:9090?token=hush", "not token"),
    ],
)
def test_invalid_addresses_are_rejected(address: str, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        Address.parse(address)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "address",
    ["broker:9090", "[::1]:9090", "dns:///broker:9090", "unix:/tmp/socket", "ipv4:10.0.0.1:1,10.0.0.2:1"],
)
def test_address_without_tls_is_a_grpc_target(address: str) -> None:
    assert Address.parse(address) == Address(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "broker",
        "broker:",
        "broker:65536",
        "a b:9090",
        "http://broker:9090",
        "grpc://broker:9090",
        "host/x:9090",
    ],
)
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


def test_a_token_is_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hush.hush.hush\n")
    parsed = Address.parse(f"tls://broker:9090?token_file={file}")
    assert parsed.identified
    assert "hush" not in repr(parsed)


def test_an_unusable_token_file_is_rejected_without_its_content(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hush hush")
    with pytest.raises(KafkaError, match="letters, digits, dots") as caught:
        Address.parse(f"tls://broker:9090?token_file={file}")
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_secrets_of_a_program_are_not_in_the_text_of_an_address() -> None:
    address = Address.parse("tls://broker:9090")
    for identified in (address.with_password("alice", "hush"), address.with_token(lambda: "hush")):
        assert identified.identified
        assert "hush" not in repr(identified)


def test_users_and_tokens_need_tls() -> None:
    plain = Address.parse("broker:9090")
    with pytest.raises(KafkaError, match="over TLS only"):
        plain.with_password("a", "b")
    with pytest.raises(KafkaError, match="over TLS only"):
        plain.with_token(lambda: "a.b.c")


async def test_channels_open_with_and_without_credentials(tmp_path: Path) -> None:
    certified = Address.parse("tls://127.0.0.1:1")
    for address in (
        Address.parse("127.0.0.1:1"),
        certified,
        certified.with_password("alice", "hush"),
        certified.with_token(lambda: "a.b.c"),
    ):
        await address.open([]).close()
        address.open_blocking([]).close()


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
