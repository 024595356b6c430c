"""Access tokens: accepted ones, invalid claims, and a corpus of attacks on the signature (RFC 8725)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.security.authentication.access_tokens import (
    ALGORITHMS,
    MAX_KEYS,
    AccessToken,
    KeySet,
    TokenRejected,
    TokenRules,
    header_of,
    verify,
)
from sharebroker_server.security.principal import Principal
from tests.testkit.issuer import AUDIENCE, ISSUER, jwk, jwk_set, private_key, token
from tests.testkit.tables import each

NOW = 1_800_000_000.0
RULES = TokenRules(frozenset({AUDIENCE, "other"}), ISSUER)
KEYS = KeySet([jwk("RS256", "1"), jwk("ES256", "2"), jwk("EdDSA", "3")])


def accepted(text: str, keys: KeySet = KEYS, rules: TokenRules = RULES, now: float = NOW) -> AccessToken:
    return verify(text, keys, rules, now)


def rejected(text: str, keys: KeySet = KEYS, rules: TokenRules = RULES, now: float = NOW) -> str:
    with pytest.raises(TokenRejected) as caught:
        verify(text, keys, rules, now)
    return str(caught.value)


@each("algorithm", ALGORITHMS)
def test_every_asymmetric_algorithm_is_accepted(algorithm: str) -> None:
    text = token("alice", algorithm, now=NOW)
    assert accepted(text, KeySet([jwk(algorithm, "1")])) == AccessToken(Principal("alice"), NOW + 3600)


def test_without_a_key_id_the_one_fitting_key_is_used() -> None:
    text = token(key_id=None, now=NOW)
    assert accepted(text).principal == Principal("alice")
    assert "no key" in rejected(text, KeySet([jwk("RS256", "1"), jwk("RS256", "2")]))


@each(
    "claims, reason",
    [
        ({"exp": None}, "no claim exp"),
        ({"exp": "soon"}, "no claim exp"),
        ({"exp": True}, "no claim exp"),
        ({"exp": float("inf")}, "no claim exp"),
        ({"iat": None}, "no claim iat"),
        ({"exp": NOW - 31}, "expired"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"nbf": "x"}, "no claim nbf"),
        ({"iss": None}, "another issuer"),
        ({"iss": ISSUER + "/"}, "another issuer"),
        ({"iss": [ISSUER]}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": "sharebroker2"}, "another audience"),
        ({"aud": [["sharebroker"], 1]}, "another audience"),
        ({"sub": None}, "no subject"),
        ({"sub": "  "}, "no subject"),
        ({"sub": 7}, "no subject"),
        ({"sub": "x" * 250}, "no subject"),
    ],
)
def test_invalid_claims_are_rejected(claims: dict[str, Any], reason: str) -> None:
    sub = claims.pop("sub", "alice")
    assert reason in rejected(token(sub, now=NOW, **claims))


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW - 29}, {"nbf": NOW + 29}, {"aud": ["x", "other"]}, {"exp": int(NOW) + 1}],
)
def test_valid_claims_are_accepted(claims: dict[str, Any]) -> None:
    assert accepted(token(now=NOW, **claims)).principal == Principal("alice")


def test_rules_may_leave_out_issuer_and_audience_and_name_the_subjects_claim() -> None:
    rules = TokenRules(subject_claim="client_id", skew=0)
    text = token(now=NOW, iss=None, aud=None, client_id=" worker ")
    assert accepted(text, rules=rules).principal == Principal("worker")


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


CLAIMS = {"sub": "admin", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW, "exp": NOW + 60}
PEM = (
    private_key("RS256")
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
)
DER = (
    private_key("RS256")
    .public_key()
    .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
)
OWN = rsa.generate_private_key(65537, 2048)


def with_mac(key: bytes, algorithm: str = "HS256") -> str:
    """Returns a token whose MAC has a public value as its key."""
    signed = f"{part({'alg': algorithm, 'kid': '1'})}.{part(CLAIMS)}"
    return f"{signed}.{part(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def own(**header: Any) -> str:
    """Returns a token that another key signed."""
    return jwt.encode(CLAIMS, OWN, "RS256", headers={"kid": "1"} | header)


OWN_JWK = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OWN.public_key()))
VALID = token(now=NOW)
HEAD, BODY, SIGNATURE = VALID.split(".")
NESTED = b'{"alg":' + b"[" * 9000

ATTACKS = {
    "none": f"{part({'alg': 'none'})}.{part(CLAIMS)}.",
    "None": f"{part({'alg': 'None'})}.{part(CLAIMS)}.",
    "nOnE with another signature": f"{part({'alg': 'nOnE', 'kid': '1'})}.{part(CLAIMS)}.{SIGNATURE}",
    "no algorithm": f"{part({'kid': '1'})}.{part(CLAIMS)}.{SIGNATURE}",
    "a list of algorithms": f"{part({'alg': ['RS256'], 'kid': '1'})}.{part(CLAIMS)}.{SIGNATURE}",
    "public key in PEM as a MAC's key": with_mac(PEM),
    "public key in DER as a MAC's key": with_mac(DER),
    "modulus as a MAC's key": with_mac(jwk("RS256")["n"].encode()),
    "empty MAC key": with_mac(b""),
    "MAC named RS256": with_mac(PEM, "RS256"),
    "MAC of 512 bits": with_mac(PEM, "HS512"),
    "another key": own(),
    "another key in the header": own(jwk=OWN_JWK),
    "another key's address in the header": own(jku="http://127.0.0.1/keys", x5u="http://127.0.0.1/cert"),
    "unknown key id": own(kid="unknown"),
    "key id with a path": own(kid="../../dev/null"),
    "the EC key's id for RSA": own(kid="2"),
    "unknown critical header": own(crit=["x"], x=1),
    "no signature": f"{HEAD}.{BODY}.",
    "two parts": f"{HEAD}.{BODY}",
    "four parts": f"{VALID}.{SIGNATURE}",
    "five parts (encrypted)": f"{VALID}.{SIGNATURE}.{SIGNATURE}",
    "changed claims": f"{HEAD}.{part(CLAIMS)}.{SIGNATURE}",
    "changed header": f"{part({'alg': 'RS256', 'kid': '1', 'x': 1})}.{BODY}.{SIGNATURE}",
    "RSA-PSS instead of PKCS 1": f"{part({'alg': 'PS256', 'kid': '1'})}.{BODY}.{SIGNATURE}",
    "another hash": f"{part({'alg': 'RS512', 'kid': '1'})}.{BODY}.{SIGNATURE}",
    "EC signature of zeros": f"{part({'alg': 'ES256', 'kid': '2'})}.{part(CLAIMS)}.{part(bytes(64))}",
    "Ed25519 signature of zeros": f"{part({'alg': 'EdDSA', 'kid': '3'})}.{part(CLAIMS)}.{part(bytes(64))}",
    "unencoded payload": f"{part({'alg': 'RS256', 'kid': '1', 'b64': False, 'crit': ['b64']})}..{SIGNATURE}",
    "header is a list": f"{part([])}.{BODY}.{SIGNATURE}",
    "deeply nested header": f"{part(b'[' * 9000)}.{BODY}.{SIGNATURE}",
    "deeply nested member": f"{part(NESTED)}.{BODY}.{SIGNATURE}",
    "key id is a number": f"{part({'alg': 'RS256', 'kid': 1})}.{BODY}.{SIGNATURE}",
    "no base64": f"!{HEAD}.{BODY}.{SIGNATURE}",
    "no JWT": "abc",
    "empty": "",
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_forged_tokens_are_rejected(text: str) -> None:
    assert SIGNATURE not in rejected(text)


def test_a_signed_payload_that_is_no_object_is_rejected() -> None:
    signed = jwt.PyJWS().encode(b"[1]", private_key("RS256"), "RS256", headers={"kid": "1"})
    assert rejected(signed) == "its signature is invalid"


@given(st.text(alphabet="abcXYZ019.-_=", max_size=60))
def test_any_text_is_rejected_without_another_error(text: str) -> None:
    rejected(text)


@given(st.integers(0, len(VALID) - 1), st.sampled_from("aAbB01-_."))
def test_no_changed_token_is_accepted_with_other_claims(at: int, char: str) -> None:
    changed = VALID[:at] + char + VALID[at + 1 :]
    try:
        found = verify(changed, KEYS, RULES, NOW)
    except TokenRejected:
        return
    assert found == accepted(VALID)  # the last character of base64 has bits without meaning


@pytest.mark.parametrize(
    "keys",
    [
        [jwk("RS256", "1", alg="PS256")],
        [jwk("RS256", "1", use="enc")],
        [jwk("RS256", "2")],
        [jwk("ES256", "1")],
        [{"kty": "oct", "kid": "1", "k": part(PEM)}, jwk("ES256", "2")],
        [jwk("RS256", "1"), jwk("RS256", "1")],
        [{"kty": "RSA", "kid": "1", "n": "!", "e": "AQAB"}],
        [{"kty": "RSA", "kid": "1"}],
    ],
)
def test_unfit_keys_are_not_used(keys: list[dict[str, Any]]) -> None:
    assert rejected(VALID, KeySet(keys)) == "no key of the issuer fits it"


def test_short_rsa_keys_are_not_used() -> None:
    short = rsa.generate_private_key(65537, 1024)
    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(short.public_key())) | {"kid": "1"}
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        text = jwt.encode(CLAIMS, short, "RS256", headers={"kid": "1"})
    assert rejected(text, KeySet([key]))


def test_a_private_key_in_the_set_serves_as_its_public_key() -> None:
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private_key("RS256"))) | {"kid": "1"}
    private.pop("key_ops", None)
    assert accepted(VALID, KeySet([private])).principal == Principal("alice")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JWK set"),
        (b"{}", "no JWK set"),
        (b"[]", "no JWK set"),
        (b'{"keys": {}}', "no JWK set"),
        (b'{"keys": [1]}', "no JWK set"),
        (b"[" * 9000, "no JWK set"),
        (b'{"keys": []}', "no public key"),
        (b'{"keys": [{"kty": "oct", "k": "eA"}]}', "no public key"),
        (jwk_set(*[{"kty": "RSA"}] * (MAX_KEYS + 1)), "more than"),
    ],
)
def test_unusable_key_sets_are_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        KeySet.parse(data)


def test_a_key_set_contains_its_key_ids() -> None:
    keys = KeySet.parse(jwk_set(jwk("RS256", "1"), {"kty": "oct", "kid": "2"}))
    assert [keys.has(key_id) for key_id in ("1", "2", None)] == [True, False, True]
    assert not KeySet().has(None)


def test_the_header_names_algorithm_and_key() -> None:
    assert header_of(VALID) == ("RS256", "1")
