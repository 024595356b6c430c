"""The server's side of a SASL exchange: from the choice of a mechanism to a principal, or to a failure.

Theory of operation
-------------------

An exchange has a fixed number of rounds, so that a client cannot prolong it:

    start(mechanism) -> step(token) -> Challenge -> step(token) -> Success        SCRAM (RFC 5802)
    start(mechanism) -> step(token) -> PasswordCheck -> checked(True) -> Success  PLAIN (RFC 4616)
    start(mechanism) -> step(token) -> TokenCheck -> verified(token) -> Success   OAUTHBEARER (RFC 7628)

scramp parses and verifies the messages of SCRAM. PLAIN transmits the password, and its verification takes
milliseconds; therefore `step` only returns it, the caller verifies it outside the event loop and reports the
result to `checked`. The same holds for access tokens: their verification may wait for keys of the issuer.
After a rejected one, `verified` returns a challenge with an error, and the client's answer ends the exchange.
Any deviation raises SASL_AUTHENTICATION_FAILED with one and the same text, and ends the exchange. A user that
does not exist has a dummy credential (see `scram.dummy_credential`), so that it takes the same path and fails
in the same round as a wrong password.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.oauthbearer import (
    ERROR,
    LONGEST_BEARER_TOKEN,
    parse_initial_response,
)
from sharebroker_server.security.authentication.scram import (
    OAUTHBEARER,
    PLAIN,
    SCRAM,
    ScramCredential,
    ScramMechanism,
)
from sharebroker_server.security.principal import Principal

MECHANISMS: Final = (PLAIN, *SCRAM)
"""The mechanisms with passwords, by their names in SASL."""

LONGEST_TOKEN: Final = 4_096
"""Bytes of a message of the client; names and passwords are far shorter.

Messages with an access token have a limit of their own.
"""

LONGEST_NAME: Final = 249
"""Characters of a user's name."""

Lookup = Callable[[ScramMechanism, str], ScramCredential]
"""Returns the credential of a user, or a dummy."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange continues: the client answers `token`."""

    token: bytes


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """The exchange continues once the caller has verified the password."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """The exchange continues once the caller has verified the access token."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Success:
    """The exchange ended. `token` is the server's last message.

    `expires_at` is the end of the credentials in seconds since the epoch, None without one.
    """

    principal: Principal
    token: bytes = b""
    expires_at: float | None = None


class _State(Enum):
    MECHANISM = "the client chooses a mechanism"
    TOKEN = "the client sends a token"
    PASSWORD = "the caller verifies a password"
    ACCESS = "the caller verifies an access token"
    REJECTED = "the client acknowledges that its access token is rejected"
    ENDED = "the exchange succeeded or failed"


def failed() -> KafkaError:
    """Returns the error of every failed authentication; it does not show which check failed."""
    return KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: the credentials are invalid."
    )


def illegal_state(message: str) -> KafkaError:
    """Returns the error of a request that the state of the exchange does not permit."""
    return KafkaError(ErrorCode.ILLEGAL_SASL_STATE, message)


class SaslExchange:
    """One exchange with one client. `enabled` are the mechanisms that the client may choose."""

    __slots__ = ("_enabled", "_lookup", "_scram", "_state", "mechanism", "name")

    def __init__(self, enabled: Sequence[str], lookup: Lookup) -> None:
        self.mechanism = ""
        self._enabled = enabled
        self._lookup = lookup
        self._state = _State.MECHANISM
        self.name = ""
        """The user that the client names."""
        self._scram: Any = None

    @property
    def started(self) -> bool:
        """Whether the client chose a mechanism, and the exchange has not ended."""
        return self._state not in (_State.MECHANISM, _State.ENDED)

    @property
    def ended(self) -> bool:
        """Whether the exchange succeeded or failed."""
        return self._state is _State.ENDED

    def start(self, mechanism: str) -> None:
        """Chooses the mechanism. Raises UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE; both end it."""
        if self._state is not _State.MECHANISM:
            self._state = _State.ENDED
            raise illegal_state("The mechanism of this exchange is chosen already.")
        if mechanism not in self._enabled:
            self._state = _State.ENDED
            raise KafkaError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"This SASL mechanism is not enabled; enabled are: {', '.join(self._enabled)}.",
            )
        self.mechanism = mechanism
        self._state = _State.TOKEN

    def step(self, token: bytes) -> Challenge | PasswordCheck | TokenCheck | Success:
        """Returns the reaction to a token. Raises SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE."""
        if self._state is _State.REJECTED:
            self._state = _State.ENDED
            raise failed()
        if self._state is not _State.TOKEN:
            self._state = _State.ENDED
            raise illegal_state("A SASL token is not expected in this state.")
        self._state = _State.ENDED  # unless the token is as it should be
        bears = self.mechanism == OAUTHBEARER
        if len(token) > (LONGEST_BEARER_TOKEN if bears else LONGEST_TOKEN):
            raise failed()
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise failed() from None
        if bears:
            return self._bearer(text)
        return self._plain(text) if self.mechanism == PLAIN else self._scram_step(text)

    def checked(self, correct: bool) -> Success:
        """Ends the exchange after a PasswordCheck. Raises SASL_AUTHENTICATION_FAILED."""
        if self._state is not _State.PASSWORD:
            raise illegal_state("No password is being verified.")
        self._state = _State.ENDED
        if not correct:
            raise failed()
        return Success(Principal(self.name))

    def verified(self, principal: Principal | None, expires_at: float) -> Challenge | Success:
        """Continues after a TokenCheck; `principal` is None if the token is invalid.

        Raises SASL_AUTHENTICATION_FAILED if the client asked for another user than the token's.
        """
        if self._state is not _State.ACCESS:
            raise illegal_state("No access token is being verified.")
        if principal is None:
            self._state = _State.REJECTED
            return Challenge(ERROR)
        self._state = _State.ENDED
        if self.name not in ("", principal.name):
            raise failed()
        return Success(principal, expires_at=expires_at)

    def _bearer(self, text: str) -> TokenCheck:
        response = parse_initial_response(text)
        if response is None:
            raise failed()
        self.name = response.authorization
        self._state = _State.ACCESS
        return TokenCheck(response.token)

    def _plain(self, text: str) -> PasswordCheck:
        """Returns the password of a token `authorization id NUL name NUL password` (RFC 4616)."""
        parts = text.split("\0")
        if len(parts) != 3:
            raise failed()
        authorization, self.name, password = parts
        if not self.name or not password or authorization not in ("", self.name):
            raise failed()
        self._state = _State.PASSWORD
        return PasswordCheck(self.name, password)

    def _scram_step(self, text: str) -> Challenge | Success:
        import scramp  # slow to import, and few brokers need it

        try:
            if self._scram is None:
                mechanism = scramp.ScramMechanism(self.mechanism)
                self._scram = mechanism.make_server(self._credential)
                self._scram.set_client_first(text)
                self._state = _State.TOKEN
                return Challenge(self._scram.get_server_first().encode())
            self._scram.set_client_final(text)
            return Success(Principal(self.name), self._scram.get_server_final().encode())
        except scramp.ScramException:
            self._state = _State.ENDED
            raise failed() from None

    def _credential(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self.name = name
        found = self._lookup(SCRAM[self.mechanism], name)
        return found.salt, found.stored_key, found.server_key, found.iterations


def valid_name(name: str) -> bool:
    """Returns whether a user may have this name.

    SCRAM compares names after SASLprep (RFC 4013). A name that it changes would belong to no user.
    """
    import scramp
    from scramp.utils import saslprep

    try:
        return 0 < len(name) <= LONGEST_NAME and saslprep(name) == name
    except scramp.ScramException:
        return False
