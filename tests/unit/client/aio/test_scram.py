"""Credentials that a client derives from a password."""

from __future__ import annotations

from sharebroker.aio.scram import HASHES, mechanism_name, upsertion


def test_each_credential_has_a_salt_of_its_own() -> None:
    for mechanism in HASHES:
        first, second = upsertion("alice", "pencil", mechanism), upsertion("alice", "pencil", mechanism)
        assert (first.name, first.mechanism, first.iterations) == ("alice", mechanism, 8192)
        assert first.salt != second.salt
        assert first.salted_password != second.salted_password


def test_mechanisms_have_their_names_in_sasl() -> None:
    assert [mechanism_name(mechanism) for mechanism in HASHES] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert mechanism_name(9) == "9"  # type: ignore[arg-type]  # a mechanism of a later version
