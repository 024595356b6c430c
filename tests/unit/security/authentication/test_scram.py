"""Credentials have the keys of the RFCs, contain no password, and match only their password."""

from __future__ import annotations

import base64

import pytest

from sharebroker_server.security.authentication.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    dummy_credential,
    matches,
    salted_password,
)

MECHANISMS = list(ScramMechanism)
SALT = b"a salt of 20 bytes.."


def credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    salted = salted_password(mechanism, password, SALT, MIN_ITERATIONS)
    return credential_of(mechanism, salted, SALT, MIN_ITERATIONS)


def test_numbers_and_names_are_kafkas() -> None:
    assert [(int(each), each.label, each.key_length) for each in ScramMechanism] == [
        (1, "SCRAM-SHA-256", 32),
        (2, "SCRAM-SHA-512", 64),
    ]


def test_keys_verify_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)
    found = credential_of(ScramMechanism.SCRAM_SHA_256, salted, salt, 4096)
    assert base64.b64encode(found.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(found.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_only_the_password_matches(mechanism: ScramMechanism) -> None:
    found = credential(mechanism, "größe 1")
    assert matches(mechanism, found, "größe 1")
    assert not any(matches(mechanism, found, other) for other in ("größe 2", "", "GRÖSSE 1"))


def test_the_text_of_a_credential_contains_no_key() -> None:
    assert repr(credential(ScramMechanism.SCRAM_SHA_256, "pencil")) == "ScramCredential(iterations=4096)"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_dummy_looks_like_the_credential_of_a_user(mechanism: ScramMechanism) -> None:
    like = ScramCredential(b"s" * 70, b"k" * mechanism.key_length, b"k" * mechanism.key_length, 5_000)
    dummy = dummy_credential(mechanism, "stranger", b"secret", like)
    lengths = [len(part) for part in (dummy.salt, dummy.stored_key, dummy.server_key)]
    assert (lengths, dummy.iterations) == ([70, mechanism.key_length, mechanism.key_length], 5_000)


def test_a_dummy_is_the_same_for_each_login_of_a_name() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    first, again, other, foreign = (
        dummy_credential(mechanism, name, secret, None)
        for name, secret in (("a", b"1"), ("a", b"1"), ("b", b"1"), ("a", b"2"))
    )
    assert first == again
    assert len({first.salt, other.salt, foreign.salt}) == 3
