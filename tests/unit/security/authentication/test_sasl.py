"""A SASL exchange ends with the user's principal, or with one error that shows no reason."""

from __future__ import annotations

import base64

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.oauthbearer import DUMMY, ERROR, LONGEST_BEARER_TOKEN
from sharebroker_server.security.authentication.sasl import (
    LONGEST_NAME,
    LONGEST_TOKEN,
    MECHANISMS,
    Challenge,
    PasswordCheck,
    SaslExchange,
    Success,
    TokenCheck,
    failed,
    valid_name,
)
from sharebroker_server.security.authentication.scram import (
    OAUTHBEARER,
    SCRAM,
    ScramCredential,
    ScramMechanism,
    dummy_credential,
)
from sharebroker_server.security.principal import Principal
from tests.testkit.sasl import MemoryUsers, ScramClient, plain
from tests.testkit.tables import each

USERS = MemoryUsers({"alice": "pencil", "müller=a,b": "größe"})


def lookup(mechanism: ScramMechanism, name: str) -> ScramCredential:
    found = USERS.credentials(name).get(mechanism)
    return found or dummy_credential(mechanism, name, b"secret", USERS.any_credential(mechanism))


def started(mechanism: str) -> SaslExchange:
    exchange = SaslExchange(MECHANISMS, lookup)
    exchange.start(mechanism)
    return exchange


def challenge(exchange: SaslExchange, token: bytes) -> bytes:
    outcome = exchange.step(token)
    assert isinstance(outcome, Challenge)
    return outcome.token


def rejected(exchange: SaslExchange, token: bytes) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        exchange.step(token)
    assert exchange.ended
    return caught.value


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("name", "password"), [("alice", "pencil"), ("müller=a,b", "größe")])
def test_scram_authenticates_client_and_server(mechanism: str, name: str, password: str) -> None:
    exchange, client = started(mechanism), ScramClient(mechanism, name, password)
    outcome = exchange.step(client.final(challenge(exchange, client.first())))
    assert isinstance(outcome, Success)
    assert outcome.principal == Principal(name)
    client.verify(outcome.token)
    assert exchange.ended


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("name", "password"), [("alice", "Pencil"), ("stranger", "pencil")])
def test_a_wrong_password_and_an_unknown_user_look_alike(mechanism: str, name: str, password: str) -> None:
    exchange, client = started(mechanism), ScramClient(mechanism, name, password)
    first = challenge(exchange, client.first())
    parts = dict(part.split("=", 1) for part in first.decode().split(","))
    assert (len(base64.b64decode(parts["s"])), parts["i"]) == (24, "4096")
    error = rejected(exchange, client.final(first))
    assert (error.code, error.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, failed().message)


def test_plain_returns_the_password_for_verification() -> None:
    exchange = started("PLAIN")
    assert exchange.step(plain("alice", "pencil")) == PasswordCheck("alice", "pencil")
    assert exchange.checked(True) == Success(Principal("alice"))


def test_plain_accepts_the_own_name_as_authorization_id() -> None:
    assert started("PLAIN").step(plain("alice", "pencil", "alice")) == PasswordCheck("alice", "pencil")


def test_a_wrong_password_fails_with_the_common_error() -> None:
    exchange = started("PLAIN")
    exchange.step(plain("alice", "Pencil"))
    with pytest.raises(KafkaError) as caught:
        exchange.checked(False)
    assert (caught.value.code, caught.value.message) == (failed().code, failed().message)


def test_the_text_of_a_password_check_has_no_password() -> None:
    assert "pencil" not in repr(PasswordCheck("alice", "pencil"))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice\0",
        b"\0\0pencil",
        b"bob\0alice\0pencil",
        b"\0alice\0pencil\0",
        b"\0\xff\0pencil",
        plain("alice", "p" * LONGEST_TOKEN),
    ],
)
def test_a_malformed_token_of_plain_fails(token: bytes) -> None:
    assert rejected(started("PLAIN"), token).message == failed().message


@each(
    "token",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,r=x,n=alice",
        b"n,a=bob,n=alice,r=x",
        b"y,,n=alice,r=",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n==,r=x",
        b"n,,n=\xff,r=x",
        b"n,,m=1,n=alice,r=x",
        b"n,,n=alice,r=" + b"x" * LONGEST_TOKEN,
    ],
)
def test_a_malformed_first_message_of_scram_fails(token: bytes) -> None:
    assert rejected(started("SCRAM-SHA-256"), token).message == failed().message


def test_the_proof_of_another_exchange_fails() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil")
    other, exchange = started("SCRAM-SHA-256"), started("SCRAM-SHA-256")
    proof = client.final(challenge(other, client.first()))
    challenge(exchange, b"n,,n=alice,r=abc")
    assert rejected(exchange, proof).message == failed().message


def test_a_mechanism_that_is_not_enabled_ends_the_exchange() -> None:
    exchange = SaslExchange(["SCRAM-SHA-512"], lookup)
    with pytest.raises(KafkaError, match="SCRAM-SHA-512") as caught:
        exchange.start("PLAIN")
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert exchange.ended


def test_a_token_before_the_mechanism_is_illegal() -> None:
    error = rejected(SaslExchange(MECHANISMS, lookup), plain("alice", "pencil"))
    assert error.code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_second_mechanism_is_illegal() -> None:
    exchange = started("PLAIN")
    with pytest.raises(KafkaError) as caught:
        exchange.start("PLAIN")
    assert (caught.value.code, exchange.ended) == (ErrorCode.ILLEGAL_SASL_STATE, True)


def test_an_exchange_that_failed_stays_failed() -> None:
    exchange = started("SCRAM-SHA-256")
    rejected(exchange, b"")
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil")
    assert rejected(exchange, client.first()).code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_result_without_a_password_check_is_illegal() -> None:
    with pytest.raises(KafkaError) as caught:
        started("PLAIN").checked(True)
    assert caught.value.code is ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("alice", True),
        ("müller=a,b", True),
        ("a" * LONGEST_NAME, True),
        ("", False),
        ("a" * (LONGEST_NAME + 1), False),
        ("\N{LATIN SMALL LIGATURE FI}", False),
        ("a\0b", False),
    ],
)
def test_names_are_bounded_and_stay_the_same_after_saslprep(name: str, valid: bool) -> None:
    assert valid_name(name) is valid


def bearing(token: str = "t", authorization: str = "") -> SaslExchange:
    """Returns an exchange that waits for the verification of a token."""
    exchange = SaslExchange([OAUTHBEARER], lookup)
    exchange.start(OAUTHBEARER)
    user = f"a={authorization}" if authorization else ""
    assert exchange.step(f"n,{user},\1auth=Bearer {token}\1\1".encode()) == TokenCheck(token)
    return exchange


@pytest.mark.parametrize("authorization", ["", "alice"])
def test_a_verified_access_token_authenticates(authorization: str) -> None:
    exchange = bearing(authorization=authorization)
    assert exchange.started
    assert exchange.verified(Principal("alice"), 7.0) == Success(Principal("alice"), expires_at=7.0)
    assert exchange.ended


@pytest.mark.parametrize("answer", [DUMMY, b"", b"n,,\1auth=Bearer t\1\1"])
def test_a_rejected_access_token_fails_in_the_next_step(answer: bytes) -> None:
    exchange = bearing()
    assert exchange.verified(None, 0.0) == Challenge(ERROR)
    assert exchange.started
    assert rejected(exchange, answer).code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_access_token_of_another_user_than_requested_fails() -> None:
    exchange = bearing(authorization="bob")
    with pytest.raises(KafkaError) as caught:
        exchange.verified(Principal("alice"), 7.0)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert exchange.ended


@pytest.mark.parametrize("token", [b"", DUMMY, b"n,,", b"\xff", b"n,,\1auth=Basic t\1\1"])
def test_a_malformed_message_with_an_access_token_fails(token: bytes) -> None:
    exchange = SaslExchange([OAUTHBEARER], lookup)
    exchange.start(OAUTHBEARER)
    assert rejected(exchange, token).code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_messages_with_access_tokens_are_limited() -> None:
    bearing("t" * LONGEST_TOKEN)
    exchange = SaslExchange([OAUTHBEARER], lookup)
    exchange.start(OAUTHBEARER)
    rejected(exchange, f"n,,\1auth=Bearer {'t' * LONGEST_BEARER_TOKEN}\1\1".encode())


def test_an_unrequested_verification_is_illegal() -> None:
    with pytest.raises(KafkaError) as caught:
        started("PLAIN").verified(Principal("alice"), 7.0)
    assert caught.value.code is ErrorCode.ILLEGAL_SASL_STATE


def test_the_text_of_a_check_contains_no_token() -> None:
    assert "secret" not in repr(TokenCheck("secret"))
