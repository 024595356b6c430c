"""What both listeners need to authenticate clients: the enabled mechanisms, and the users of the catalog."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from sharebroker_server.security.authentication.passwords import PasswordVerifier
from sharebroker_server.security.authentication.sasl import SaslExchange
from sharebroker_server.security.authentication.scram import (
    PLAIN,
    ScramCredential,
    ScramMechanism,
    dummy_credential,
)

if TYPE_CHECKING:  # these import cryptography
    from sharebroker_server.security.authentication.access_tokens import AccessToken
    from sharebroker_server.security.authentication.signing_keys import TokenVerifier

Credentials = Mapping[ScramMechanism, ScramCredential]
"""The credentials of a user, by mechanism."""

_NO_CREDENTIALS: Final[Credentials] = {}
_PREFERRED: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)


class Users(Protocol):
    """The users of a cluster."""

    def credentials(self, name: str) -> Credentials:
        """Returns the credentials of a user; empty for a user that does not exist."""

    def any_credential(self, mechanism: ScramMechanism) -> ScramCredential | None:
        """Returns the credential of some user; always the same one while the users do not change."""


class NoUsers:
    """The users before the catalog is read."""

    def credentials(self, name: str) -> Credentials:
        """Returns no credentials."""
        return _NO_CREDENTIALS

    def any_credential(self, mechanism: ScramMechanism) -> ScramCredential | None:
        """Returns None."""
        return None


class Authenticator:
    """Authenticates the clients of one process with the mechanisms of `sasl.enabled.mechanisms`.

    `tls` states whether the listeners have TLS; without it PLAIN and Basic, which transmit passwords, are
    refused. Unless authentication is `required`, clients are served without it as well. `tokens` verifies
    access tokens, if the mechanisms contain OAUTHBEARER. `users` is replaced once the catalog is read.
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        *,
        tls: bool,
        required: bool = True,
        tokens: TokenVerifier | None = None,
    ) -> None:
        self.tls = tls
        self.required = required
        self.tokens = tokens
        self.mechanisms = tuple(name for name in mechanisms if tls or name != PLAIN)
        self.users: Users = NoUsers()
        self.passwords = PasswordVerifier(self._password)
        self._secret = secrets.token_bytes(32)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns a valid access token; None for any other, and if tokens are not accepted."""
        return None if self.tokens is None else await self.tokens.verify(token)

    def exchange(self) -> SaslExchange:
        """Returns a new exchange with a client."""
        return SaslExchange(self.mechanisms, self._credential)

    def _credential(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        dummy = self._dummy(mechanism, name)  # for every user: the time must not show that a user exists
        return self.users.credentials(name).get(mechanism, dummy)

    def _password(self, name: str) -> tuple[ScramMechanism, ScramCredential]:
        found = self.users.credentials(name)
        for mechanism in _PREFERRED:
            if mechanism in found:
                return mechanism, found[mechanism]
        existing = (each for each in _PREFERRED if self.users.any_credential(each) is not None)
        mechanism = next(existing, _PREFERRED[0])
        return mechanism, self._dummy(mechanism, name)

    def _dummy(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        return dummy_credential(mechanism, name, self._secret, self.users.any_credential(mechanism))
