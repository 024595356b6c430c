"""Which properties of Kafka's clients describe a connection, and which are rejected."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.client_properties import LoginProperties, Pem, client_properties
from tests.testkit.tables import each

SERVERS = {"bootstrap.servers": "b1:9092,b2:9092"}
SECRET = "s3cret-word"
PLAIN_MODULE = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
)
SASL = {**SERVERS, "security.protocol": "SASL_PLAINTEXT"}
SCRAM = {**SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": SECRET}
OAUTH_MODULE = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'clientId="c" clientSecret="{SECRET}" scope="s" extension_logicalCluster="lkc-1";'
)
OAUTH = {
    **SERVERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": OAUTH_MODULE,
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
}


def test_defaults_connect_in_plain_text() -> None:
    found = client_properties(SERVERS)
    assert found.bootstrap == (("b1", 9092), ("b2", 9092))
    assert not found.tls
    assert found.login is None
    assert found.fetch_max_wait_ms == 500
    assert found.ignored == ()


@each(
    "text, expected",
    [
        ("b1:9092", (("b1", 9092),)),
        (" b1:1 , b1:1,b2:65535,", (("b1", 1), ("b2", 65_535))),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_addresses_of_the_command_line_replace_the_file(
    text: str, expected: tuple[tuple[str, int], ...]
) -> None:
    assert client_properties(SERVERS, text).bootstrap == expected


@each("text", ["b1", "b1:0", "b1:65536", ":9092", "b 1:9092", "kafka://b1:9092", ",", "b1:٣"])
def test_invalid_addresses_name_the_option(text: str) -> None:
    with pytest.raises(KafkaError, match=r"--log: it takes HOST:PORT,"):
        client_properties(SERVERS, text)


def test_addresses_are_required() -> None:
    with pytest.raises(KafkaError, match=r"bootstrap\.servers: it takes HOST:PORT,"):
        client_properties({})


def test_a_login_module_and_plain_properties_are_equal() -> None:
    plain = {**SASL, "sasl.mechanism": "PLAIN"}
    expected = LoginProperties("PLAIN", "u", SECRET)
    assert client_properties({**plain, "sasl.jaas.config": PLAIN_MODULE}).login == expected
    named = {**plain, "sasl.username": "u", "sasl.password": SECRET}
    assert client_properties(named).login == expected
    assert SECRET not in repr(client_properties(named))


def test_scram_is_read() -> None:
    assert client_properties(SCRAM).login == LoginProperties("SCRAM-SHA-512", "u", SECRET)


def test_access_tokens_have_an_endpoint_and_extensions() -> None:
    found = client_properties(OAUTH)
    assert found.tls
    assert found.login == LoginProperties(
        "OAUTHBEARER", "c", SECRET, "https://issuer/token", "s", {"logicalCluster": "lkc-1"}
    )


def test_pem_stores_are_read() -> None:
    store = {
        **SERVERS,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/both.pem",
        "ssl.key.password": SECRET,
    }
    found = client_properties(store)
    assert (found.trusted, found.certificate, found.key) == (
        Pem(path="/ca.pem"),
        *[Pem(path="/both.pem")] * 2,
    )
    assert found.key_password == SECRET
    assert SECRET not in repr(found)
    assert found.checks_host_name
    assert not client_properties({**store, "ssl.endpoint.identification.algorithm": ""}).checks_host_name


def test_pem_texts_and_other_names_are_read() -> None:
    found = client_properties(
        {
            **SERVERS,
            "security.protocol": "SSL",
            "ssl.ca.location": "/ca",
            "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.keystore.key": "KEY",
        }
    )
    assert (found.trusted, found.certificate, found.key) == (Pem(path="/ca"), Pem("CHAIN"), Pem("KEY"))


@each(
    "changes, name",
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": "PlainLoginModule"}, "sasl.jaas.config"),
        ({**SCRAM, "sasl.jaas.config": PLAIN_MODULE}, "sasl.jaas.config"),
        ({**SCRAM, "sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": ""}, "sasl.oauthbearer.token.endpoint.url"),
        ({**OAUTH, "sasl.jaas.config": ""}, "sasl.jaas.config"),
        ({**OAUTH, "sasl.jaas.config": OAUTH_MODULE.replace("logical", "1")}, "sasl.jaas.config"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/a.jks"}, "ssl.truststore.type"),
        ({"security.protocol": "SSL", "ssl.keystore.type": "PKCS12"}, "ssl.keystore.type"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "KEY"}, "ssl.keystore.key"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "A"}, "ssl.cipher.suites"),
        ({"fetch.max.wait.ms": "0"}, "fetch.max.wait.ms"),
        ({"fetch.max.wait.ms": "1e3"}, "fetch.max.wait.ms"),
        ({"topics": "("}, "topics"),
    ],
)
def test_a_rejected_property_is_named_without_secrets(changes: dict[str, str], name: str) -> None:
    with pytest.raises(KafkaError) as failure:
        client_properties({**SERVERS, **changes})
    assert failure.value.code == ErrorCode.INVALID_CONFIG
    assert failure.value.message.startswith(f"{name}: ")
    assert SECRET not in failure.value.message


def test_properties_without_effect_are_listed() -> None:
    found = client_properties(
        {**SERVERS, "acks": "all", "ssl.protocol": "TLSv1.3", "sasl.mechanism": "GSSAPI", "retries": "3"}
    )
    assert found.ignored == ("acks", "retries")
