"""SCRAM credentials (RFC 5802, RFC 7677), as Kafka stores them.

A credential proves that a client has the password, and does not contain the password: with SaltedPassword =
PBKDF2(password, salt, iterations), StoredKey = H(HMAC(SaltedPassword, "Client Key")) and ServerKey =
HMAC(SaltedPassword, "Server Key"). Passwords are UTF-8 without SASLprep, as in Kafka's clients.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Smallest and largest number of iterations of a stored credential (Kafka: `ScramControlManager`)."""

MIN_SALT: Final = 12
MAX_SALT: Final = 256
"""Smallest and largest number of salt bytes. RFC 5802 has no limits; scramp rejects salts under 12 bytes."""


_SALT: Final = 24
_ITERATIONS: Final = 8_192


class ScramMechanism(IntEnum):
    """The mechanisms, with their numbers in Kafka's API."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """The name in SASL."""
        return self.name.replace("_", "-")

    @property
    def hash(self) -> str:
        """The hash function, as hashlib names it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def key_length(self) -> int:
        """Bytes of each key."""
        return hashlib.new(self.hash).digest_size


PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
"""The mechanisms without SCRAM, by their names in SASL."""

SCRAM: Final[Mapping[str, ScramMechanism]] = {mechanism.label: mechanism for mechanism in ScramMechanism}
"""The SCRAM mechanisms by their name in SASL."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What the server stores about a user's password for one mechanism. Its text contains no secret."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Returns the SaltedPassword. It takes milliseconds of CPU time: do not call it in the event loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Returns the credential of a SaltedPassword."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash)
    return ScramCredential(
        salt,
        hashlib.new(mechanism.hash, client_key).digest(),
        hmac.digest(salted, b"Server Key", mechanism.hash),
        iterations,
    )


def new_credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    """Returns a credential of a password, with a random salt. It takes milliseconds of CPU time."""
    salt = os.urandom(_SALT)
    salted = salted_password(mechanism, password, salt, _ITERATIONS)
    return credential_of(mechanism, salted, salt, _ITERATIONS)


def matches(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Returns whether the credential is that of the password.

    It takes milliseconds of CPU time: do not call it in the event loop.
    """
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    found = credential_of(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def dummy_credential(
    mechanism: ScramMechanism, name: str, secret: bytes, like: ScramCredential | None
) -> ScramCredential:
    """Returns a credential that no password matches, for a user that does not exist.

    It is the same for each call with `name` and `secret`. Salt length and iterations are those of `like`,
    the credential of an existing user, so that the response does not show that the user does not exist.
    """

    def derived(purpose: str) -> bytes:
        text = "\0".join((purpose, mechanism.label, name))
        return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), mechanism.hash)

    length = MIN_SALT * 2 if like is None else len(like.salt)
    salt = b"".join(derived(f"salt {part}") for part in range(-(-length // mechanism.key_length)))[:length]
    iterations = MIN_ITERATIONS if like is None else like.iterations
    return ScramCredential(salt, derived("stored key"), derived("server key"), iterations)
