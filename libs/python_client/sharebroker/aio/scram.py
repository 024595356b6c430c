"""The credentials that a client derives from a password (RFC 5802), so that the server never receives it."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster

HASHES: Final = {
    cluster.SCRAM_MECHANISM_SCRAM_SHA_256: "sha256",
    cluster.SCRAM_MECHANISM_SCRAM_SHA_512: "sha512",
}
"""The hash function of each mechanism."""

_ITERATIONS: Final = 8_192
_SALT: Final = 24


def upsertion(
    user: str, password: str, mechanism: cluster.ScramMechanism.ValueType
) -> cluster.AlterUserScramCredentialsRequest.Upsertion:
    """Returns a new credential of a user. It takes milliseconds of CPU time."""
    salt = os.urandom(_SALT)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, _ITERATIONS)
    return cluster.AlterUserScramCredentialsRequest.Upsertion(
        name=user, mechanism=mechanism, iterations=_ITERATIONS, salt=salt, salted_password=salted
    )


def mechanism_name(mechanism: cluster.ScramMechanism.ValueType) -> str:
    """Returns the name of a mechanism in SASL."""
    name = cluster.ScramMechanism.Name(mechanism) if mechanism in HASHES else str(int(mechanism))
    return name.removeprefix("SCRAM_MECHANISM_").replace("_", "-")
