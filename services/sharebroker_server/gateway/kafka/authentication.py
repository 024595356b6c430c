"""The authentication of one connection: which requests it admits, and until when.

Theory of operation (Kafka: `SaslServerAuthenticator`, KIP-368)
---------------------------------------------------------------

    not authenticated --SaslHandshake--> exchange --SaslAuthenticate (1 or 2)--> authenticated
    authenticated --SaslHandshake--> exchange --SaslAuthenticate--> authenticated        re-authentication

* Before authentication only ApiVersions and SaslHandshake are admitted; any other request closes the
  connection without a response. During an exchange only SaslAuthenticate is; any other request gets
  ILLEGAL_SASL_STATE and closes the connection.
* A failure gets its response after a delay, and then closes the connection. A client that is not
  authenticated `AUTHENTICATION_TIMEOUT` seconds after it connected, or after it began to re-authenticate, is
  disconnected.
* With `sasl.client.auth=requested` a client that is not authenticated may send any request, as the owner of
  its certificate or as ANONYMOUS. Once it begins an exchange, the rules above apply.
* With `connections.max.reauth.ms` a session ends that many milliseconds after its authentication, and at
  the latest when its access token expires. After its end only SaslHandshake is admitted. A
  re-authentication keeps principal and mechanism.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import API_VERSIONS
from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.sasl import (
    PasswordCheck,
    SaslExchange,
    Success,
    TokenCheck,
    failed,
    illegal_state,
)
from sharebroker_server.security.principal import Principal

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36

AUTHENTICATION_TIMEOUT: Final = 10.0
"""Seconds that a client has to authenticate."""

_MIN_INTERVAL: Final = 1.0
"""Seconds between two re-authentications, at least (Kafka: `KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND`)."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """What all connections share.

    `max_reauth_ms` is the length of a session, 0 without a limit; a failure is reported `failure_delay`
    seconds later; a client that is not authenticated may send requests of `max_receive_size` bytes.
    """

    authenticator: Authenticator
    max_reauth_ms: int = 0
    failure_delay: float = 0.1
    max_receive_size: int = 524_288

    @staticmethod
    def of(authenticator: Authenticator, config: BrokerConfig) -> SaslSettings:
        """Returns the settings of a broker."""
        return SaslSettings(
            authenticator,
            config.connections_max_reauth_ms,
            config.connection_failed_authentication_delay_ms / 1000,
            config.sasl_server_max_receive_size,
        )


class SaslSession:
    """The state of one connection. `now` returns monotonic seconds, `clock` seconds since the epoch."""

    def __init__(
        self,
        settings: SaslSettings,
        now: Callable[[], float] = monotonic,
        clock: Callable[[], float] = time,
    ) -> None:
        self.principal: Principal | None = None
        """The authenticated user."""
        self.closes = False
        """Whether the connection must be closed after the present response."""
        self._settings = settings
        self._now = now
        self._clock = clock
        self._exchange: SaslExchange | None = None
        self._mechanism = ""
        self._begun_at = now()
        self._ends_at: float | None = None

    @property
    def mechanism(self) -> str:
        """The mechanism of the present exchange; empty without one."""
        return "" if self._exchange is None else self._exchange.mechanism

    @property
    def claimed(self) -> str:
        """The user that the client claims to be in the present exchange; empty if it names none."""
        return "" if self._exchange is None else self._exchange.name

    @property
    def over(self) -> bool:
        """Whether the session has ended: the client must authenticate again."""
        return self._ends_at is not None and self._now() > self._ends_at

    @property
    def overdue(self) -> bool:
        """Whether the client took too long to authenticate."""
        pending = self._must_authenticate or self._exchange is not None
        return pending and self._now() - self._begun_at > AUTHENTICATION_TIMEOUT

    @property
    def _must_authenticate(self) -> bool:
        return self.principal is None and self._settings.authenticator.required

    def admit(self, api_key: int, queued_for: float) -> bool:
        """Returns whether the state permits a request that arrived `queued_for` seconds ago.

        If not, it gets ILLEGAL_SASL_STATE. Raises BadMessage: close the connection without a response.
        """
        if self._exchange is not None:
            self.closes = api_key != SASL_AUTHENTICATE
            return not self.closes
        if (
            self.principal is None
            and self._must_authenticate
            and api_key not in (API_VERSIONS, SASL_HANDSHAKE)
        ):
            raise BadMessage("A request before authentication.")
        ended = self._ends_at is not None and self._now() - queued_for > self._ends_at
        if ended and api_key != SASL_HANDSHAKE:
            raise BadMessage("The session is over, and the client did not authenticate again.")
        return True

    def handshake(self, mechanism: str) -> None:
        """Begins an exchange. Raises UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE."""
        now = self._now()
        unlimited = self._ends_at is None
        if self.principal is not None and (unlimited or now - self._begun_at < _MIN_INTERVAL):
            raise illegal_state("The connection is authenticated already.")
        exchange = self._settings.authenticator.exchange()
        try:
            exchange.start(mechanism)
            if self.principal is not None and mechanism != self._mechanism:
                text = f"A connection must authenticate again with the same mechanism, {self._mechanism}."
                raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
        except KafkaError:
            self.closes = True
            raise
        self._exchange, self._begun_at = exchange, now

    async def authenticate(self, token: bytes) -> tuple[bytes, int]:
        """Returns the server's token, and the length of the session in milliseconds.

        The length is 0 without a limit and before the exchange succeeds. Raises SASL_AUTHENTICATION_FAILED,
        ILLEGAL_SASL_STATE, THROTTLING_QUOTA_EXCEEDED.
        """
        if self._exchange is None:
            raise illegal_state("A SASL token is not expected: the connection is authenticated already.")
        try:
            outcome = self._exchange.step(token)
            if isinstance(outcome, PasswordCheck):
                verify = self._settings.authenticator.passwords.verify
                outcome = self._exchange.checked(await verify(outcome.name, outcome.password))
            elif isinstance(outcome, TokenCheck):
                accepted = await self._settings.authenticator.verify_token(outcome.token)
                outcome = self._exchange.verified(*(accepted or (None, 0.0)))
            if not isinstance(outcome, Success):
                return outcome.token, 0
            if self.principal not in (None, outcome.principal):
                raise failed()
        except KafkaError:
            self.closes = True
            await asyncio.sleep(self._settings.failure_delay)
            raise
        return outcome.token, self._succeeded(outcome, self._exchange.mechanism)

    def _succeeded(self, success: Success, mechanism: str) -> int:
        self.principal, self._mechanism, self._exchange = success.principal, mechanism, None
        lengths = [self._settings.max_reauth_ms] if self._settings.max_reauth_ms else []
        if success.expires_at is not None:
            lengths.append(max(0, int((success.expires_at - self._clock()) * 1000)))
        self._ends_at = self._now() + min(lengths) / 1000 if lengths else None
        return min(lengths, default=0)
