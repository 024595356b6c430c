"""Composes what authenticates the clients of both listeners, from the broker's properties."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.keys import split
from sharebroker_server.security.authenticator import Authenticator
from sharebroker_server.security.principal_mapping import PrincipalMapping
from sharebroker_server.security.user_access import UserAccess


@dataclass(frozen=True, slots=True)
class Authentication:
    """What authenticates clients: users if `sasl.enabled.mechanisms` requires it, and certificates.

    `certificates` are the principals of client certificates if `ssl.client.auth` requires them.
    """

    authenticator: Authenticator | None = None
    certificates: PrincipalMapping | None = None

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
        authenticator = Authenticator(mechanisms, tls=tls is not None, required=required)
        stack.callback(authenticator.passwords.close)
        return cls(authenticator, certificates)

    @property
    def access(self) -> Sequence[UserAccess]:
        """The check of the gRPC listener; empty if clients need not authenticate."""
        if self.authenticator is None and self.certificates is None:
            return ()
        return [UserAccess(self.authenticator, self.certificates)]
