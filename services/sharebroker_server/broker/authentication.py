"""Composes what authenticates the clients of both listeners, from the broker's properties."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from sharebroker_protocol.address import is_loopback
from sharebroker_server.broker.settings import ServeSettings, invalid, unauthenticated
from sharebroker_server.config.keys import split
from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.key_download import check_url
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping
from sharebroker_server.security.authentication.scram import OAUTHBEARER
from sharebroker_server.security.user_access import UserAccess

if TYPE_CHECKING:
    from sharebroker_server.security.authentication.signing_keys import SigningKeys, TokenVerifier

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Authentication:
    """What authenticates clients: users if `sasl.enabled.mechanisms` requires it, and certificates.

    `certificates` are the principals of client certificates if `ssl.client.auth` requires them. `keys` are
    those of the issuer of access tokens.
    """

    authenticator: Authenticator | None = None
    certificates: PrincipalMapping | None = None
    keys: SigningKeys | None = None

    @classmethod
    def start(cls, settings: ServeSettings, stack: AsyncExitStack) -> Authentication:
        """Returns the authentication of a broker; `stack` ends it. Raises INVALID_CONFIG."""
        config, tls = settings.config, settings.tls
        mapping = PrincipalMapping.parse(config.ssl_principal_mapping_rules)
        certificates = mapping if tls is not None and tls.requires_client_certificates else None
        mechanisms = split(config.sasl_enabled_mechanisms)
        if not mechanisms:
            return cls(certificates=certificates)
        required = config.sasl_client_auth == "required"
        keys, tokens = _token_verifier(settings, stack) if OAUTHBEARER in mechanisms else (None, None)
        authenticator = Authenticator(mechanisms, tls=tls is not None, required=required, tokens=tokens)
        stack.callback(authenticator.passwords.close)
        return cls(authenticator, certificates, keys)

    async def read_keys(self) -> None:
        """Reads the keys of the issuer, and keeps them current."""
        if self.keys is not None:
            await self.keys.start()

    @property
    def access(self) -> Sequence[UserAccess]:
        """The check of the gRPC listener; empty if clients need not authenticate."""
        if self.authenticator is None and self.certificates is None:
            return ()
        return [UserAccess(self.authenticator, self.certificates)]


def _token_verifier(settings: ServeSettings, stack: AsyncExitStack) -> tuple[SigningKeys, TokenVerifier]:
    # imports cryptography, which few brokers need
    from sharebroker_server.security.authentication.access_tokens import TokenRules
    from sharebroker_server.security.authentication.signing_keys import KeySource, SigningKeys, TokenVerifier

    config = settings.config
    check_tokens(settings)
    keys = SigningKeys(
        KeySource(
            config.sasl_oauthbearer_jwks_endpoint_url,
            config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
            config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000,
            config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000,
        )
    )
    stack.push_async_callback(keys.stop)
    rules = TokenRules(
        frozenset(split(config.sasl_oauthbearer_expected_audience)),
        config.sasl_oauthbearer_expected_issuer,
        config.sasl_oauthbearer_sub_claim_name,
        config.sasl_oauthbearer_clock_skew_seconds,
    )
    return keys, TokenVerifier(keys, rules)


def check_tokens(settings: ServeSettings) -> None:
    """Raises INVALID_CONFIG unless access tokens can be verified, and are not readable on the network."""
    config = settings.config
    try:
        check_url(config.sasl_oauthbearer_jwks_endpoint_url)
    except ValueError as error:
        raise invalid(f"sasl.oauthbearer.jwks.endpoint.url: {error}.") from error
    for name in ("issuer", "audience"):
        expected, allow = f"sasl.oauthbearer.expected.{name}", f"sasl.oauthbearer.allow.unverified.{name}"
        if not config.get(expected) and not config.get(allow):
            raise invalid(f"OAUTHBEARER needs {expected}, or {allow}=true.")
    listeners = [settings.grpc, *([settings.kafka] if settings.opens_kafka else [])]
    if settings.tls is None and not all(is_loopback(each.rpartition(":")[0]) for each in listeners):
        raise invalid(
            "OAUTHBEARER in sasl.enabled.mechanisms transmits access tokens and needs --tls-cert and "
            "--tls-key, unless the listeners have loopback addresses."
        )


def log_unauthenticated(settings: ServeSettings) -> None:
    """Logs listeners whose clients are not authenticated, or cannot be."""
    for warning in unauthenticated(settings):
        _log.warning("clients are not authenticated", reason=warning)
