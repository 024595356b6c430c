"""PLAIN and SCRAM as a client: the examples of the RFCs, a server, and invalid messages of a broker."""

from __future__ import annotations

import re

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.sasl import Credentials, exchange
from sharebroker_server.security.authentication.sasl import Challenge, SaslExchange, Success
from sharebroker_server.security.authentication.scram import (
    SCRAM,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from tests.testkit.tables import each

SALT = b"0123456789abcdef"
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
PENCIL = Credentials("SCRAM-SHA-256", "user", "pencil")


def test_plain_sends_user_and_password() -> None:
    steps = exchange(Credentials("PLAIN", "a,b=c", "s\u00e9cret"), NONCE)
    assert next(steps) == "\0a,b=c\0s\u00e9cret".encode()
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_scram_sends_the_messages_of_the_example() -> None:
    """RFC 7677, section 3."""
    steps = exchange(PENCIL, NONCE)
    assert next(steps) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert steps.send(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        steps.send(SERVER_FINAL)


@each(
    "mechanism, user, password",
    [
        *((mechanism, "user", "pencil") for mechanism in SCRAM),
        ("SCRAM-SHA-512", "a=b,c", "=,\u00e9 "),
    ],
)
def test_our_server_accepts_the_client(mechanism: str, user: str, password: str) -> None:
    def lookup(kind: ScramMechanism, name: str) -> ScramCredential:
        assert name == user
        return credential_of(kind, salted_password(kind, password, SALT, 4096), SALT, 4096)

    server = SaslExchange([mechanism], lookup)
    server.start(mechanism)
    steps = exchange(Credentials(mechanism, user, password), NONCE)
    challenge = server.step(next(steps))
    assert isinstance(challenge, Challenge)
    success = server.step(steps.send(challenge.token))
    assert isinstance(success, Success)
    with pytest.raises(StopIteration):
        steps.send(success.token)


@each(
    "server_first, reason",
    [
        (b"", "iterations|Base64"),
        (b"\xff", "not UTF-8"),
        (SERVER_FIRST.replace(b"r=rOp", b"r=xOp"), "nonce"),
        (SERVER_FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "nonce"),
        (SERVER_FIRST.replace(b"W22Z", b"W2?Z"), "Base64"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"1000001"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"9" * 5000), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"-4096"), "iterations"),
    ],
)
def test_an_invalid_first_message_of_the_server_is_rejected(server_first: bytes, reason: str) -> None:
    steps = exchange(PENCIL, NONCE)
    next(steps)
    with pytest.raises(KafkaError) as rejected:
        steps.send(server_first)
    assert rejected.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert re.search(reason, rejected.value.message)


@each("server_final", [b"", b"e=other-error", b"v=AAAA", b"v=?", SERVER_FINAL.replace(b"6rri", b"6rrj")])
def test_a_server_without_the_credential_is_rejected(server_final: bytes) -> None:
    steps = exchange(PENCIL, NONCE)
    next(steps)
    steps.send(SERVER_FIRST)
    with pytest.raises(KafkaError) as rejected:
        steps.send(server_final)
    assert rejected.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_unknown_mechanism_is_rejected() -> None:
    with pytest.raises(KafkaError, match="not GSSAPI") as rejected:
        exchange(Credentials("GSSAPI", "user", "secret"), NONCE)
    assert rejected.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_credentials_do_not_show_their_password() -> None:
    assert "pencil" not in repr(PENCIL)


def test_an_access_token_is_sent_with_its_extensions() -> None:
    """RFC 7628, section 4.1, and KIP-342."""
    steps = exchange(Credentials("OAUTHBEARER", "client", "a.b.c", {"logicalCluster": "lkc-1"}), NONCE)
    assert next(steps) == b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01"
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_a_refused_access_token_ends_the_exchange_without_it() -> None:
    steps = exchange(Credentials("OAUTHBEARER", "client", "a.b.c"), NONCE)
    next(steps)
    assert steps.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(KafkaError, match="The broker refused the access token") as failure:
        steps.send(b"")
    assert failure.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "a.b.c" not in str(failure.value)
