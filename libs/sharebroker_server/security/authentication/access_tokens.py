"""Verifies access tokens: JWTs with a signature of the issuer (RFC 7519, RFC 8725). Pure.

The token's `alg` selects nothing but the verification with a key that fits it: only asymmetric algorithms
are accepted, each only with keys of its type, and with the one algorithm that a key names. Keys within the
token (`jwk`, `jku`, `x5u`) are ignored. The reasons of rejection are for the log; they contain no part of the
token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import jwt

from sharebroker_server.security.authentication.sasl import LONGEST_NAME
from sharebroker_server.security.principal import Principal

MAX_KEYS: Final = 100
"""Largest number of keys of an issuer."""

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_EC: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
ALGORITHMS: Final = (*_RSA, *_EC, "EdDSA")
"""The accepted algorithms; `none` and the HS family, whose keys are shared secrets, are not among them."""

_PUBLIC: Final[Mapping[str, Sequence[str]]] = {
    "RSA": ("kty", "n", "e"),
    "EC": ("kty", "crv", "x", "y"),
    "OKP": ("kty", "crv", "x"),
}
"""The members of a public key, by key type (RFC 7518, section 6)."""

_SIGNATURE_ONLY: Final[Any] = {
    **dict.fromkeys((f"verify_{name}" for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")), False),
    "enforce_minimum_key_length": True,
}
_VERIFIER: Final = jwt.PyJWT()


class TokenRules(NamedTuple):
    """What a token must contain.

    Empty `audiences` and an empty `issuer` are not verified. `skew` is the permitted difference of clocks
    in seconds.
    """

    audiences: frozenset[str] = frozenset()
    issuer: str = ""
    subject_claim: str = "sub"
    skew: float = 30.0


class AccessToken(NamedTuple):
    """A verified token: whose it is, and when it expires, in seconds since the epoch."""

    principal: Principal
    expires_at: float


class TokenRejected(Exception):
    """A token is not accepted; the text is the reason."""


class TokenHeader(NamedTuple):
    """Which key of the issuer signed a token, and how."""

    algorithm: str
    key_id: str | None


class KeySet:
    """The public keys of an issuer (RFC 7517)."""

    def __init__(self, keys: Sequence[Mapping[str, Any]] = ()) -> None:
        self._keys = [key for key in keys if key.get("kty") in _PUBLIC and key.get("use", "sig") == "sig"]
        self._made: dict[tuple[int, str], jwt.PyJWK | None] = {}

    @classmethod
    def parse(cls, data: bytes) -> KeySet:
        """Parses a JWK set. Raises ValueError with the reason."""
        try:
            keys = json.loads(data)["keys"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("it is no JWK set") from None
        if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
            raise ValueError("it is no JWK set")
        if len(keys) > MAX_KEYS:
            raise ValueError(f"it contains more than {MAX_KEYS} keys")
        made = cls(keys)
        if not made._keys:
            raise ValueError("it contains no public key for signatures")
        return made

    def has(self, key_id: str | None) -> bool:
        """Returns whether a key has this id; None stands for any."""
        return any(key_id is None or key.get("kid") == key_id for key in self._keys)

    def key(self, header: TokenHeader) -> jwt.PyJWK | None:
        """Returns the key that fits a token; None if there is none, or several without a key id."""
        fitting = [number for number, key in enumerate(self._keys) if _fits(key, header)]
        return self._make(fitting[0], header.algorithm) if len(fitting) == 1 else None

    def _make(self, number: int, algorithm: str) -> jwt.PyJWK | None:
        if (number, algorithm) not in self._made:
            key = self._keys[number]
            public = {name: key.get(name) for name in _PUBLIC[key["kty"]]}
            try:
                self._made[number, algorithm] = jwt.PyJWK(public, algorithm)
            except (jwt.PyJWTError, ValueError, TypeError):
                self._made[number, algorithm] = None
        return self._made[number, algorithm]


def _fits(key: Mapping[str, Any], header: TokenHeader) -> bool:
    algorithm, key_id = header
    if (key_id is not None and key.get("kid") != key_id) or key.get("alg", algorithm) != algorithm:
        return False
    if key["kty"] == "EC":
        return _EC.get(algorithm) == key.get("crv")
    return algorithm in _RSA if key["kty"] == "RSA" else algorithm == "EdDSA"


def header_of(token: str) -> TokenHeader:
    """Returns a token's header, which is not verified. Raises TokenRejected."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRejected("it is no signed JWT") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS or not isinstance(algorithm, str):
        raise TokenRejected("its algorithm is not accepted")
    if key_id is not None and not isinstance(key_id, str):
        raise TokenRejected("its key id is no text")
    return TokenHeader(algorithm, key_id)


def verify(token: str, keys: KeySet, rules: TokenRules, now: float) -> AccessToken:
    """Returns a token whose signature and claims are valid at `now`. Raises TokenRejected."""
    header = header_of(token)
    key = keys.key(header)
    if key is None:
        raise TokenRejected("no key of the issuer fits it")
    try:
        decoded = _VERIFIER.decode_complete(token, key, [header.algorithm], _SIGNATURE_ONLY)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise TokenRejected("its signature is invalid") from None
    return _accepted(decoded["payload"], rules, now)


def _accepted(claims: Mapping[str, Any], rules: TokenRules, now: float) -> AccessToken:
    """Checks the claims (Kafka: `BrokerJwtValidator`)."""
    expires_at = _time(claims, "exp")
    _time(claims, "iat")
    if now - rules.skew >= expires_at:
        raise TokenRejected("it is expired")
    if "nbf" in claims and now + rules.skew < _time(claims, "nbf"):
        raise TokenRejected("it is not valid yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenRejected("another issuer made it")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if rules.audiences and not any(isinstance(each, str) and each in rules.audiences for each in named):
        raise TokenRejected("it is for another audience")
    subject = claims.get(rules.subject_claim)
    name = subject.strip() if isinstance(subject, str) else ""
    if not 0 < len(name) <= LONGEST_NAME:
        raise TokenRejected("it names no subject")
    return AccessToken(Principal(name), expires_at)


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenRejected(f"it has no claim {name}")
    return float(value)
