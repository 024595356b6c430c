"""Settings of `serve`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.settings import (
    ServeSettings,
    check_authentication,
    check_proxy,
    describe,
    parse_address,
    parse_first_user,
    parse_log,
    parse_max_memory,
    parse_principals,
    parse_roles,
    parse_super_users,
    parse_tls,
    unauthenticated,
)
from sharebroker_server.catalog.users import CreateUser
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.routing.router import ROLES
from sharebroker_server.rpc.tls import TlsFiles
from sharebroker_server.security.authentication.scram import ScramMechanism, matches


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


TLS = TlsFiles(Path("a"), Path("b"))
MUTUAL = TlsFiles(Path("a"), Path("b"), Path("c"), requires_client_certificates=True)
SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-256"


def test_the_first_user_has_a_credential_per_mechanism(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hush\n")
    assert parse_first_user(None, None) is None
    user = parse_first_user("admin", file)
    assert user is not None
    assert [matches(each, user.credentials[each], "hush") for each in ScramMechanism] == [True, True]
    described = describe(ServeSettings(first_user=user, config=BrokerConfig.parse(())))
    assert json.loads(described)["admin_user"] == "admin"
    assert "hush" not in f"{user} {described}"


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("admin", None, "both --admin-user"),
        (None, "absent", "both --admin-user"),
        ("", "absent", "--admin-user: Username must not be empty"),
        ("admin", "absent", "--admin-password-file .*absent: No such file"),
    ],
)
def test_an_incomplete_first_user_is_rejected(name: str | None, file: str | None, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason):
        parse_first_user(name, None if file is None else Path(file))


def test_plain_needs_tls() -> None:
    plain = BrokerConfig.parse(["sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN"])
    check_authentication(TLS, plain)
    check_authentication(None, BrokerConfig.parse([SCRAM]))
    with pytest.raises(KafkaError, match=r"PLAIN .* needs --tls-cert"):
        check_authentication(None, plain)


@pytest.mark.parametrize(
    ("grpc", "kafka", "tls", "properties", "named"),
    [
        ("127.0.0.1:1", "[::1]:2", None, (), []),
        ("0.0.0.0:1", "127.0.0.1:2", None, (), ["--grpc 0.0.0.0:1"]),
        ("127.0.0.1:1", "10.0.0.1:2", TLS, (), ["--kafka 10.0.0.1:2"]),
        ("0.0.0.0:1", "none", None, (), ["--grpc 0.0.0.0:1"]),
        ("0.0.0.0:1", "0.0.0.0:2", MUTUAL, (), []),
        ("0.0.0.0:1", "0.0.0.0:2", TLS, (SCRAM,), []),
        ("127.0.0.1:1", "127.0.0.1:2", None, (SCRAM,), ["gRPC clients cannot authenticate without TLS"]),
        ("127.0.0.1:1", "127.0.0.1:2", None, ("sasl.enabled.mechanisms=OAUTHBEARER",), []),
    ],
)
def test_listeners_that_serve_anyone_are_named(
    grpc: str, kafka: str, tls: TlsFiles | None, properties: tuple[str, ...], named: list[str]
) -> None:
    settings = ServeSettings(grpc=grpc, kafka=kafka, tls=tls, config=BrokerConfig.parse(properties))
    found = unauthenticated(settings)
    assert len(found) == len(named)
    assert all(part in text for part, text in zip(named, found, strict=True))


@pytest.mark.parametrize(
    ("properties", "roles", "named"),
    [((), "all", True), ((SCRAM,), "all", False), ((), "group-coordinator", False)],
)
def test_warns_about_a_first_user_without_authentication(
    properties: tuple[str, ...], roles: str, named: bool
) -> None:
    user = CreateUser("admin", {})
    config = BrokerConfig.parse(properties)
    settings = ServeSettings(tls=TLS, first_user=user, roles=parse_roles(roles), config=config)
    assert any("--admin-user" in text for text in unauthenticated(settings)) is named


def test_only_gateways_serve_clients() -> None:
    config = BrokerConfig.parse(())
    assert not unauthenticated(
        ServeSettings(grpc="0.0.0.0:1", roles=parse_roles("share-coordinator"), config=config)
    )


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


def test_super_users_are_principals_separated_by_semicolons() -> None:
    def parsed(text: str) -> frozenset[str]:
        return parse_super_users(BrokerConfig.parse([f"super.users={text}"]))

    assert parsed("") == parsed(" ; ") == frozenset()
    assert parsed("User:admin; User:CN=a,O=b ;") == {"User:admin", "User:CN=a,O=b"}
    for invalid in ("admin", "User:", ":admin", "User:a;b"):
        with pytest.raises(KafkaError, match=r"super\.users takes principals"):
            parsed(invalid)


@pytest.mark.parametrize("log", ["b1:9092", "redis://b1:9092", "kafka:b1:9092", "KAFKA://b1:9092", ""])
def test_a_log_is_a_kafka_cluster(log: str) -> None:
    with pytest.raises(KafkaError, match=r"--log takes kafka://HOST:PORT,…, for example"):
        parse_log(log, None)


def test_the_log_of_another_cluster_has_addresses_and_properties(tmp_path: Path) -> None:
    assert parse_log(None, None) is None
    alone = parse_log("kafka://b1:9092,b2:9093/", None)
    assert alone is not None
    assert alone.addresses == "b1:9092,b2:9093"
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b3:9092\nclient.id=reader")
    for log, addresses in ((None, "b3:9092"), ("kafka://b1:9092", "b1:9092")):
        settings = parse_log(log, file)
        assert settings is not None
        assert (settings.addresses, settings.properties.client_id) == (addresses, "reader")
    with pytest.raises(KafkaError, match=r"--log: it takes HOST:PORT"):
        parse_log("kafka://b1", None)


def test_a_described_log_contains_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=hush\n"
        "ssl.key.password=hush"
    )
    settings = ServeSettings(upstream=parse_log("kafka://b1:9092", file), config=BrokerConfig.parse(()))
    described = describe(settings)
    assert json.loads(described)["upstream"]["sasl.username"] == "me"
    assert "hush" not in f"{settings} {described}"
    assert json.loads(describe(ServeSettings(config=BrokerConfig.parse(()))))["upstream"] is None


def test_a_proxy_needs_a_cluster_and_a_listener() -> None:
    log = "kafka://b1:9092"
    assert check_proxy(True, log, "127.0.0.1:9092")
    assert not check_proxy(False, None, "none")
    with pytest.raises(KafkaError, match="--proxy needs --log kafka://"):
        check_proxy(True, None, "127.0.0.1:9092")
    with pytest.raises(KafkaError, match="--proxy needs a Kafka listener"):
        check_proxy(True, log, "none")
