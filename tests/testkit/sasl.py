"""The client's side of SASL, and users in memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import scramp

from sharebroker_server.security.authentication.authenticator import Credentials
from sharebroker_server.security.authentication.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)

Send = Callable[[bytes], bytes]
"""Sends a token and returns the server's one."""


def credentials_of(password: str, iterations: int = MIN_ITERATIONS) -> dict[ScramMechanism, ScramCredential]:
    """Returns a user's credentials for all mechanisms."""
    made = {}
    for mechanism in ScramMechanism:
        salt = secrets.token_bytes(24)
        salted = salted_password(mechanism, password, salt, iterations)
        made[mechanism] = credential_of(mechanism, salted, salt, iterations)
    return made


class MemoryUsers:
    """Users by name, with their credentials."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.by_name: dict[str, Credentials] = {
            name: credentials_of(password) for name, password in passwords.items()
        }

    def credentials(self, name: str) -> Credentials:
        """Returns the credentials of a user."""
        return self.by_name.get(name, {})

    def any_credential(self, mechanism: ScramMechanism) -> ScramCredential | None:
        """Returns the credential of the first user."""
        return next((each[mechanism] for each in self.by_name.values() if mechanism in each), None)


class ScramClient:
    """A client's SCRAM exchange: `first`, then `final` with the server's first message."""

    def __init__(self, mechanism: str, name: str, password: str) -> None:
        self._client: Any = scramp.ScramClient([mechanism], name, password)

    def first(self) -> bytes:
        """Returns the first message."""
        return bytes(self._client.get_client_first().encode())

    def final(self, server_first: bytes) -> bytes:
        """Returns the message with the proof."""
        self._client.set_server_first(server_first.decode())
        return bytes(self._client.get_client_final().encode())

    def verify(self, server_final: bytes) -> None:
        """Raises ScramException unless the server has the credential."""
        self._client.set_server_final(server_final.decode())


def plain(name: str, password: str, authorization: str = "") -> bytes:
    """Returns the token of SASL PLAIN."""
    return "\0".join((authorization, name, password)).encode()
