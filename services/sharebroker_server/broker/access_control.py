"""Who may use a broker's listeners: the authentication and the authorization of clients, by its settings."""

from __future__ import annotations

from contextlib import AsyncExitStack

import structlog

from sharebroker_server.broker.authentication import Authentication
from sharebroker_server.broker.settings import ServeSettings, parse_principals, parse_super_users
from sharebroker_server.catalog.access_view import AccessView
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from sharebroker_server.security.authorizer import ALLOW_ALL, Authorizer

_log = structlog.get_logger()


class AccessControl:
    """The authentication of clients, and `authorizer`, which decides what they may do.

    `open` adds the users and, if `authorizer.class.name` requires it, the decisions by ACLs. Raises
    INVALID_CONFIG.
    """

    def __init__(self, settings: ServeSettings, stack: AsyncExitStack) -> None:
        self.authentication = Authentication.start(settings, stack)
        self.authorizer: Authorizer = ALLOW_ALL
        self._settings = settings
        self._super_users = parse_super_users(settings.config)
        self._brokers = self._broker_names()

    def open(self, catalog: MetadataCache) -> None:
        """Reads users and ACLs from `catalog` from now on."""
        view, config = AccessView(catalog), self._settings.config
        if self.authentication.authenticator is not None:
            self.authentication.authenticator.users = view
        if not config.authorizer_class_name:
            return
        authorizer = AclAuthorizer(
            view,
            super_users=self._super_users,
            brokers=self._brokers,
            default=config.allow_everyone_if_no_acl_found,
        )
        catalog.add_access_observer(authorizer.invalidate)
        self.authorizer = authorizer
        may_act = self._super_users or self._settings.first_user or catalog.catalog.users.has_super_user()
        if not may_act and not len(view.acls) and not config.allow_everyone_if_no_acl_found:
            _log.warning(
                "every request is denied",
                reason="There is no super user and no ACL; set super.users, or start with --admin-user.",
            )

    def _broker_names(self) -> list[str]:
        """Returns the names that certificates of the cluster's processes have as principals."""
        mapping = self.authentication.certificates
        subjects = parse_principals(self._settings.config)
        return [] if mapping is None else [name for name in map(mapping.name, subjects) if name]
